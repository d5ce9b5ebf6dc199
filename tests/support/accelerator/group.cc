// SPDX-License-Identifier: Apache-2.0
#include "tests/support/accelerator/group.h"

#include <ATen/ATen.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "tests/support/accelerator/shadow.h"

namespace composer::mock {
namespace {

// Holds the tensors until the waiting stream is ordered after the collective, as ProcessGroupNCCL does.
class MockWork final : public c10d::Work {
 public:
  MockWork(Event end, int device, std::vector<at::Tensor> tensors, std::shared_ptr<Exchange> exchange)
      : end_(std::move(end)), device_(device), tensors_(std::move(tensors)), exchange_(std::move(exchange)) {}
  bool isCompleted() override { return Machine::Get().Query(end_); }
  bool wait(std::chrono::milliseconds) override {
    {
      const auto lock = Machine::Get().Hold();
      TORCH_CHECK(!exchange_->aborted(), "mock group: the communicator was aborted");
      const int stream = CurrentStream(device_);
      if (!Machine::Get().ForgetsWait(stream, end_)) Machine::Get().Wait(stream, end_);
    }
    tensors_.clear();
    return true;
  }
  void synchronize() override { wait(kNoTimeout); }

 private:
  Event end_;
  int device_;
  std::vector<at::Tensor> tensors_;
  std::shared_ptr<Exchange> exchange_;
};

}  // namespace

MockGroup::MockGroup(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size)
    : MockGroup(ExchangeOfThreads(store, rank, size), rank, size) {}

MockGroup::MockGroup(std::shared_ptr<Exchange> exchange, int rank, int size)
    : Backend(rank, size), exchange_(std::move(exchange)) {
  const auto device = static_cast<c10::DeviceIndex>(CurrentDevice());
  stream_ = device * kStreamsPerDevice +
            static_cast<int>(c10::impl::VirtualGuardImpl(at::kCUDA).getStreamFromGlobalPool({at::kCUDA, device}).id());
}

c10::intrusive_ptr<c10d::Work> MockGroup::Start(const std::string& kind, const at::Tensor& output,
                                                const at::Tensor& input, int root) {
  Machine& machine = Machine::Get();
  const auto lock = machine.Hold();
  TORCH_CHECK(!exchange_->aborted(), "mock group: the communicator was aborted");
  const int device = DeviceOf(stream_);
  TORCH_CHECK(input.get_device() == device && output.get_device() == device, "mock group: ", kind,
              " of a tensor that is not on the group's device, cuda:", device);
  machine.Wait(stream_, machine.Record(CurrentStream(device)));
  Shadows views;
  const at::Tensor in = views.Of(input, false), out = views.Of(output, true);
  // A graph's collective has a new number at each replay.
  const std::vector<Access> uses = views.TakeUses();
  const auto make = [exchange = exchange_, sequence = sequence_, uses,
                     given = Collective{0, kind, out, in, root, getRank()}]() -> Operation {
    Collective collective = given;
    collective.sequence = ++*sequence;
    return {collective.kind, uses, [exchange, collective] { exchange->Run(collective); },
            [exchange, collective] { return exchange->Ready(collective); }};
  };
  const Tape* const tape = machine.TapeOf(device);
  const bool captured = tape != nullptr && tape->Takes(stream_);
  machine.Launch(stream_, captured ? Operation{kind, uses, nullptr, nullptr, make} : make());
  return c10::make_intrusive<MockWork>(machine.Record(stream_), device, std::vector<at::Tensor>{output, input},
                                       exchange_);
}

c10::intrusive_ptr<c10d::Work> MockGroup::allreduce(std::vector<at::Tensor>& tensors,
                                                    const c10d::AllreduceOptions& options) {
  TORCH_CHECK(tensors.size() == 1 && options.reduceOp == c10d::ReduceOp::SUM, "mock group: one tensor, and sums only");
  return Start("allreduce", tensors[0], tensors[0], 0);
}

c10::intrusive_ptr<c10d::Work> MockGroup::broadcast(std::vector<at::Tensor>& tensors,
                                                    const c10d::BroadcastOptions& options) {
  return Start("broadcast", tensors.at(0), tensors.at(0), static_cast<int>(options.rootRank));
}

c10::intrusive_ptr<c10d::Work> MockGroup::_allgather_base(at::Tensor& output, at::Tensor& input,
                                                          const c10d::AllgatherOptions&) {
  return Start("allgather", output, input, 0);
}

c10::intrusive_ptr<c10d::Work> MockGroup::_reduce_scatter_base(at::Tensor& output, at::Tensor& input,
                                                               const c10d::ReduceScatterOptions&) {
  return Start("reducescatter", output, input, 0);
}

void MockGroup::abort() {
  {
    const auto lock = Machine::Get().Hold();
    exchange_->Abort();
  }
  Machine::Get().Wake();
}

}  // namespace composer::mock
