// Tests the mock's graphs: what is captured does not run, a replay does what the program did, random numbers go on, and
// each mistake that CUDA refuses, or that spoils a replay, is found.
// SPDX-License-Identifier: Apache-2.0
#include "tests/support/accelerator/graphs.h"

#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/cuda.h>

#include "tests/support/accelerator/fixture.h"
#include "tests/support/accelerator/generator.h"

namespace composer::mock {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;

class MockGraphsTest : public OnMock {
 protected:
  // Runs it once, so that the mock knows the shapes, and then captures it.
  template <typename Fn>
  std::unique_ptr<DeviceGraph> Capture(const Fn& program) {
    program();
    return CaptureAtOnce(program);
  }
  template <typename Fn>
  std::unique_ptr<DeviceGraph> CaptureAtOnce(const Fn& program) {
    graphs_.Begin();
    try {
      program();
      return graphs_.End();
    } catch (...) {
      graphs_.Abandon();
      throw;
    }
  }
  template <typename Fn>
  void ExpectRefused(const std::string& part, const Fn& program, bool runs_first = true) {
    if (runs_first) program();
    EXPECT_THAT([&] { CaptureAtOnce(program); }, ThrowsMessage<c10::Error>(HasSubstr(part)));
    const at::Tensor after = at::ones({3}, kDevice) * 2;  // all is as before
    EXPECT_EQ(after.sum().item<float>(), 6);
  }
  void Order(c10::Stream before, c10::Stream after) {
    c10::Event event(at::kCUDA);
    event.record(before);
    event.block(after);
  }

  const c10::impl::VirtualGuardImpl guard_{at::kCUDA};
  const c10::Stream own_ = guard_.getStreamFromGlobalPool(kDevice), side_ = guard_.getStreamFromGlobalPool(kDevice);
  const c10::StreamGuard on_own_{own_};
  MockGraphs graphs_;
};

TEST_F(MockGraphsTest, AReplayComputesFromWhatTheInputsHoldThen) {
  const at::Tensor input = at::ones({1000}, kDevice), sum = at::zeros({1000}, kDevice);
  const auto graph = Capture([&] { sum.add_(input * 3 + 1); });
  EXPECT_EQ(sum[7].item<float>(), 4) << "only the first call has run";
  for (int i = 0; i < 3; ++i) {
    input.fill_(i);
    graph->Replay();
  }
  EXPECT_EQ(sum[7].item<float>(), 4 + (1 + 4 + 7));
}

TEST_F(MockGraphsTest, MemoryOfTheGraphIsItsOwn) {
  const at::Tensor input = at::ones({512}, kDevice);
  at::Tensor kept;
  const auto graph = Capture([&] { kept = (input + 1) * (input + 2); });
  graph->Replay();
  std::vector<at::Tensor> others;
  for (int i = 0; i < 20; ++i) others.push_back(at::full({512}, 99.0, kDevice));
  EXPECT_EQ(kept[0].item<float>(), 6);
  input.fill_(2);
  graph->Replay();
  EXPECT_EQ(kept[0].item<float>(), 12);
  for (const at::Tensor& other : others) EXPECT_EQ(other.sum().item<float>(), 99 * 512);
}

TEST_F(MockGraphsTest, AGraphGivesItsMemoryBack) {
  const auto used = [] { return MockDeviceAllocator::Get().getDeviceStats(0).reserved_bytes[0].current; };
  const at::Tensor input = at::ones({100000}, kDevice);
  std::vector<int64_t> after;
  for (int i = 0; i < 4; ++i) {
    Capture([&] { (input + 1).sum(); })->Replay();
    torch::cuda::synchronize(0);
    after.push_back(used());
  }
  EXPECT_EQ(after[1], after[3]);
}

TEST_F(MockGraphsTest, RandomNumbersAreThoseOfAnEagerRun) {
  const at::Tensor input = at::ones({400}, kDevice);
  at::Tensor drawn;
  const auto program = [&] { drawn = at::dropout(input, 0.5, true) + at::rand({400}, kDevice); };
  const auto graph = Capture(program);
  std::vector<at::Tensor> eager, replayed;
  at::manual_seed(5);
  for (int i = 0; i < 3; ++i) {
    graph->Replay();
    replayed.push_back(drawn.cpu());
  }
  at::manual_seed(5);
  for (int i = 0; i < 3; ++i) {
    program();
    eager.push_back(drawn.cpu());
  }
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(replayed[i].equal(eager[i])) << i;
  EXPECT_FALSE(replayed[0].equal(replayed[1]));
}

TEST_F(MockGraphsTest, AStreamThatWaitsIsCapturedToo) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Machine::Get().Restart(seed);
    const at::Tensor input = at::ones({1000}, kDevice), output = at::zeros({1000}, kDevice);
    const auto graph = Capture([&] {
      Order(own_, side_);
      {
        const c10::StreamGuard on_side(side_);
        output.copy_(input * 2);
      }
      Order(side_, own_);
      output.add_(1);
    });
    input.fill_(10);
    graph->Replay();
    EXPECT_EQ(output[3].item<float>(), 21);
  }
}

TEST_F(MockGraphsTest, AMissingWaitInsideTheGraphIsFoundAtTheReplay) {
  const at::Tensor input = at::ones({1000}, kDevice), output = at::zeros({1000}, kDevice);
  const auto program = [&](bool waits) {
    Order(own_, side_);
    input.mul_(2);
    if (waits) Order(own_, side_);
    {
      const c10::StreamGuard on_side(side_);
      output.copy_(input);
    }
    Order(side_, own_);
  };
  program(true);
  const auto graph = CaptureAtOnce([&] { program(false); });
  EXPECT_THAT(Machine::Get().TakeFaults(), testing::IsEmpty());
  graph->Replay();
  torch::cuda::synchronize(0);
  EXPECT_THAT(Machine::Get().TakeFaults(), Contains(HasSubstr("does not wait for it")));
}

TEST_F(MockGraphsTest, AnInputThatIsFreedAndReusedAfterTheCaptureIsFound) {
  at::Tensor input = at::ones({1000}, kDevice);
  const at::Tensor output = at::zeros({1000}, kDevice);
  const auto graph = Capture([&] { output.copy_(input * 2); });
  graph->Replay();
  EXPECT_EQ(output[0].item<float>(), 2);
  input.reset();
  const at::Tensor other = at::full({1000}, 5.0, kDevice);  // at the same place
  graph->Replay();
  torch::cuda::synchronize(0);
  EXPECT_THAT(Machine::Get().TakeFaults(),
              ElementsAre(HasSubstr("of a graph uses memory that was freed after the capture")));
}

TEST_F(MockGraphsTest, PinnedMemoryIsReadAtEachReplayAndMustLive) {
  at::Tensor pinned = at::ones({100}, at::TensorOptions().pinned_memory(true));
  const at::Tensor output = at::zeros({100}, kDevice);
  const auto graph = Capture([&] { output.copy_(pinned, /*non_blocking=*/true); });
  torch::cuda::synchronize(0);
  pinned.fill_(4);
  graph->Replay();
  EXPECT_EQ(output[5].item<float>(), 4);
  pinned.reset();
  graph->Replay();
  torch::cuda::synchronize(0);
  EXPECT_THAT(Machine::Get().TakeFaults(), Contains(HasSubstr("freed after the capture")));
}

TEST_F(MockGraphsTest, TheHostMayNotWaitNorAsk) {
  const at::Tensor input = at::ones({10}, kDevice);
  ExpectRefused("a wait of the host", [&] { (input + 1).sum().item<float>(); });
  ExpectRefused("a wait of the host", [&] { (input + 1).cpu(); });
  ExpectRefused("a wait of the host", [&] { torch::cuda::synchronize(0); });
  ExpectRefused("a wait of the host", [&] { at::nonzero(input + 1); });
  ExpectRefused("whether an event is done", [&] {
    c10::Event event(at::kCUDA);
    event.record(own_);
    event.query();
  });
}

TEST_F(MockGraphsTest, MemoryOfTheHostMustBePinnedAndNotWaitedFor) {
  const at::Tensor output = at::ones({10}, kDevice), host = at::ones({10});
  const at::Tensor pinned = at::ones({10}, at::TensorOptions().pinned_memory(true));
  ExpectRefused("not pinned", [&] { output.copy_(host); });
  ExpectRefused("not pinned", [&] { output.copy_(host, /*non_blocking=*/true); });
  ExpectRefused("the host waits for", [&] { output.copy_(pinned); });
}

// The programs would be wrong without a graph, too.
TEST_F(MockGraphsTest, OtherStreamsMustBeOrderedBothWays) {
  const at::Tensor input = at::ones({10}, kDevice);
  input.add_(1);  // so that the mock knows its shapes
  const auto on_side = [&] {
    const c10::StreamGuard guard(side_);
    input.add_(1);
  };
  ExpectRefused("not captured", on_side, /*runs_first=*/false);
  c10::Event before(at::kCUDA);
  before.record(side_);
  ExpectRefused("recorded before", [&] { before.block(own_); }, /*runs_first=*/false);
  ExpectRefused(
      "does not wait for its end",
      [&] {
        Order(own_, side_);
        on_side();
      },
      /*runs_first=*/false);
}

TEST_F(MockGraphsTest, TheSeedMayNotChange) {
  ExpectRefused("the generator of random numbers", [&] { at::manual_seed(3), at::manual_seed(4); });
  ExpectRefused("the generator of random numbers", [&] { DefaultGenerator(0).current_seed(); });
}

TEST_F(MockGraphsTest, TheDefaultStreamCannotBeCaptured) {
  const c10::StreamGuard on_default(guard_.getDefaultStream(kDevice));
  EXPECT_THAT([&] { graphs_.Begin(); }, ThrowsMessage<c10::Error>(HasSubstr("default stream")));
}

}  // namespace
}  // namespace composer::mock
