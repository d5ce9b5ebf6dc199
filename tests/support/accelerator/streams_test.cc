// Tests what the mock is for: each mistake with streams, events and host memory is found, in every order of streams,
// and the correct program beside it is not accused.
// SPDX-License-Identifier: Apache-2.0
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/cuda.h>

#include "tests/support/accelerator/fixture.h"

namespace composer::mock {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using Guard = c10::impl::VirtualGuardImpl;

constexpr uint64_t kSeeds = 20;

// Runs a program under many orders of streams. It must be found at fault each time, or never.
class MockStreams : public OnMock {
 protected:
  template <typename Fn>
  void ExpectFault(const std::string& part, const Fn& program) {
    for (uint64_t seed = 0; seed < kSeeds; ++seed) {
      Machine::Get().Restart(seed);
      program();
      torch::cuda::synchronize(0);
      EXPECT_THAT(Machine::Get().TakeFaults(), Contains(HasSubstr(part))) << "seed " << seed;
    }
  }
  template <typename Fn>
  void ExpectNone(const Fn& program) {
    for (uint64_t seed = 0; seed < kSeeds; ++seed) {
      Machine::Get().Restart(seed);
      program();
      torch::cuda::synchronize(0);
      EXPECT_THAT(Machine::Get().TakeFaults(), IsEmpty()) << "seed " << seed;
    }
  }

  const Guard guard_{at::kCUDA};
  c10::Stream side_ = guard_.getStreamFromGlobalPool(kDevice);
  c10::Stream main() { return guard_.getDefaultStream(kDevice); }
  void Order(c10::Stream before, c10::Stream after) {
    c10::Event event(at::kCUDA);
    event.record(before);
    event.block(after);
  }
};

at::Tensor Ones(int64_t n = 1000) { return at::ones({n}, kDevice); }

TEST_F(MockStreams, AReaderMustWaitForTheWriter) {
  for (const bool waits : {false, true}) {
    const auto program = [&] {
      const at::Tensor a = Ones();
      if (waits) Order(main(), side_);
      const c10::StreamGuard on_side(side_);
      const at::Tensor b = a * 2;
      if (waits) EXPECT_EQ(b.sum().item<float>(), 2000);
      torch::cuda::synchronize(0);
    };
    waits ? ExpectNone(program) : ExpectFault("does not wait", program);
  }
}

TEST_F(MockStreams, AWriterMustWaitForTheReader) {
  for (const bool waits : {false, true}) {
    const auto program = [&] {
      const at::Tensor a = Ones();
      torch::cuda::synchronize(0);
      {
        const c10::StreamGuard on_side(side_);
        a.sum();
      }
      if (waits) Order(side_, main());
      a.fill_(3);
      torch::cuda::synchronize(0);
    };
    waits ? ExpectNone(program) : ExpectFault("does not wait", program);
  }
}

TEST_F(MockStreams, AnEventRecordedTooEarlyDoesNotHelp) {
  ExpectFault("does not wait", [&] {
    c10::Event event(at::kCUDA);
    event.record(main());
    const at::Tensor a = Ones();
    event.block(side_);
    const c10::StreamGuard on_side(side_);
    a.sum();
    torch::cuda::synchronize(0);
  });
}

TEST_F(MockStreams, WaitingOnTheWrongStreamDoesNotHelp) {
  const c10::Stream third = guard_.getStreamFromGlobalPool(kDevice);
  ExpectFault("does not wait", [&] {
    const at::Tensor a = Ones();
    Order(main(), third);
    const c10::StreamGuard on_side(side_);
    a.sum();
    torch::cuda::synchronize(0);
  });
}

TEST_F(MockStreams, WaitsAreTransitiveAndDisjointPartsAreFree) {
  const c10::Stream third = guard_.getStreamFromGlobalPool(kDevice);
  ExpectNone([&] {
    const at::Tensor a = Ones();
    Order(main(), third);
    Order(third, side_);
    {
      const c10::StreamGuard on_side(side_);
      a.slice(0, 0, 500).fill_(2);
    }
    a.slice(0, 500).fill_(3);
    torch::cuda::synchronize(0);
    EXPECT_EQ(a.sum().item<float>(), 2500);
  });
}

TEST_F(MockStreams, MemoryOfAnotherStreamNeedsRecordStream) {
  for (const bool records : {false, true}) {
    const auto program = [&] {
      at::Tensor a = Ones();
      Order(main(), side_);
      at::Tensor b;
      {
        const c10::StreamGuard on_side(side_);
        b = a * 2;
        if (records) guard_.recordDataPtrOnStream(a.storage().data_ptr(), side_);
      }
      a.reset();
      const at::Tensor reused = Ones() * 7;
      Order(side_, main());
      if (records) EXPECT_EQ(b.sum().item<float>(), 2000);
      torch::cuda::synchronize(0);
    };
    records ? ExpectNone(program) : ExpectFault("neither recordStream nor a wait", program);
  }
}

TEST_F(MockStreams, AWaitBeforeTheMemoryIsFreedIsEnough) {
  ExpectNone([&] {
    at::Tensor a = Ones();
    Order(main(), side_);
    {
      const c10::StreamGuard on_side(side_);
      a.add_(1);
    }
    Order(side_, main());
    a.reset();
    Ones();
  });
}

TEST_F(MockStreams, CopyOnASideStreamMustWaitForWhatItReads) {
  ExpectFault("copy to the host on stream", [&] {
    const at::Tensor a = Ones(), host = at::empty({1000}, at::TensorOptions().pinned_memory(true));
    const c10::StreamGuard on_side(side_);
    host.copy_(a, /*non_blocking=*/true);
    torch::cuda::synchronize(0);
  });
}

TEST_F(MockStreams, ACopyInMustBeWaitedFor) {
  ExpectFault("reads what copy to the device", [&] {
    const at::Tensor host = at::ones({1000}).pin_memory();
    at::Tensor a = at::empty({1000}, kDevice);
    Order(main(), side_);
    {
      const c10::StreamGuard on_side(side_);
      a.copy_(host, /*non_blocking=*/true);
    }
    a.sum();
    torch::cuda::synchronize(0);
  });
}

TEST_F(MockStreams, ResultsArriveInAnyOrder) {
  ExpectNone([&] {
    at::Tensor a = Ones();
    for (int i = 0; i < 10; ++i) {
      Order(main(), side_);
      at::Tensor b;
      {
        const c10::StreamGuard on_side(side_);
        b = a + 1;
      }
      Order(side_, main());
      a = b * 2;
      guard_.recordDataPtrOnStream(b.storage().data_ptr(), main());
    }
    EXPECT_EQ(a[0].item<float>(), 3070);  // x -> 2 (x + 1), ten times from 1: 3 * 1024 - 2
  });
}

TEST_F(MockStreams, TheHostMayNotTouchDeviceMemory) {
  const at::Tensor a = Ones();
  EXPECT_DEATH(printf("%f", static_cast<const float*>(a.const_data_ptr())[0]), "the host touched device memory");
  EXPECT_DEATH(a.mutable_data_ptr<float>()[0] = 1, "the host touched device memory");
}

TEST_F(MockStreams, PinnedMemoryIsTheDevicesUntilTheHostHasWaited) {
  const auto copy = [&](bool waits) {
    const at::Tensor a = Ones(), host = at::empty({1000}, at::TensorOptions().pinned_memory(true));
    host.copy_(a, /*non_blocking=*/true);
    if (waits) torch::cuda::synchronize(0);
    return host.data_ptr<float>()[3];
  };
  EXPECT_EQ(copy(true), 1);
  EXPECT_DEATH(copy(false), "pinned memory of a copy");
}

TEST_F(MockStreams, PinnedSourceMayBeReadButNotOverwritten) {
  const auto copy = [&](bool waits) {
    const at::Tensor host = at::ones({1000}).pin_memory();
    EXPECT_TRUE(host.is_pinned());
    const at::Tensor a = host.to(kDevice, /*non_blocking=*/true);
    EXPECT_EQ(host.data_ptr<float>()[3], 1);
    if (waits) torch::cuda::synchronize(0);
    host.data_ptr<float>()[3] = 5;
    return a.sum().item<float>();
  };
  EXPECT_EQ(copy(true), 1000);
  EXPECT_DEATH(copy(false), "pinned memory of a copy");
}

TEST_F(MockStreams, FreedPinnedMemoryWaitsForItsCopies) {
  ExpectNone([&] {
    at::Tensor sum = at::zeros({1000}, kDevice);
    for (int i = 0; i < 20; ++i) sum.add_(at::full({1000}, 1.0).pin_memory().to(kDevice, /*non_blocking=*/true));
    EXPECT_EQ(sum.sum().item<float>(), 20000);
  });
}

TEST_F(MockStreams, WaitsOfTheHostAreCounted) {
  const at::Tensor a = Ones(), host = at::empty({1000}, at::TensorOptions().pinned_memory(true));
  (void)(a * 2).sum();
  Machine::Get().TakeWaits();
  (void)(a * 2).sum();
  (void)at::ones({3}).to(kDevice);
  host.copy_(a, /*non_blocking=*/true);
  EXPECT_THAT(Machine::Get().TakeWaits(), IsEmpty());
  a[0].item<float>();
  at::nonzero(a);
  a.cpu();
  guard_.synchronizeStream(main());
  (void)a.equal(a);
  EXPECT_THAT(Machine::Get().TakeWaits(),
              testing::ElementsAre("item", "aten::nonzero", "copy to the host", "synchronize stream", "aten::equal"));
}

}  // namespace
}  // namespace composer::mock
