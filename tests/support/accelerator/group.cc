// SPDX-License-Identifier: Apache-2.0
#include "tests/support/accelerator/group.h"

#include <ATen/ATen.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <cstring>
#include <map>
#include <optional>

#include "absl/strings/str_cat.h"
#include "tests/support/accelerator/shadow.h"
#include "trainer/collectives/tree_sum.h"

namespace composer::mock {
namespace {

struct Part {
  at::Tensor output, input;  // the kernels' views
  std::string call;          // what must be equal on all ranks
};

// One collective: it runs once, when the last rank has come.
struct Meeting {
  std::vector<std::optional<Part>> parts;
  std::string kind;
  int root = 0;
  bool ran = false;
  int left = 0;  // ranks that are done with it

  bool Complete() const {
    for (const auto& part : parts) {
      if (!part.has_value() || part->call != parts[0]->call) return false;
    }
    return true;
  }
};

// In the product's order of sums, so that runs on any number of ranks have the bits of the CPU's.
at::Tensor SumOf(const Meeting& meeting, int64_t begin, int64_t count) {
  std::vector<at::Tensor> pieces;
  std::vector<const void*> addresses;
  for (const auto& part : meeting.parts) {
    pieces.push_back(part->input.view(-1).narrow(0, begin, count).contiguous());
    addresses.push_back(pieces.back().const_data_ptr());
  }
  at::Tensor sum = at::empty_like(pieces[0]);
  TreeSum(sum.scalar_type(), addresses, sum.mutable_data_ptr(), count);
  return sum;
}

void RunAll(const Meeting& meeting) {
  const auto size = static_cast<int64_t>(meeting.parts.size());
  if (meeting.kind == "allreduce") {
    const at::Tensor sum = SumOf(meeting, 0, meeting.parts[0]->input.numel());
    for (const auto& part : meeting.parts) part->output.view(-1).copy_(sum);
  } else if (meeting.kind == "broadcast") {
    for (const auto& part : meeting.parts) part->output.copy_(meeting.parts[static_cast<size_t>(meeting.root)]->input);
  } else if (meeting.kind == "allgather") {
    const int64_t count = meeting.parts[0]->input.numel();
    for (const auto& part : meeting.parts) {
      for (int64_t from = 0; from < size; ++from)
        part->output.view(-1)
            .narrow(0, from * count, count)
            .copy_(meeting.parts[static_cast<size_t>(from)]->input.view(-1));
    }
  } else {
    const int64_t count = meeting.parts[0]->output.numel();
    for (int64_t to = 0; to < size; ++to)
      meeting.parts[static_cast<size_t>(to)]->output.view(-1).copy_(SumOf(meeting, to * count, count));
  }
}

}  // namespace

// Guarded by the machine's lock; `meetings` is by the number of the collective.
struct MockGroup::Hub {
  int size = 0;
  bool aborted = false;
  std::map<uint64_t, Meeting> meetings;

  Meeting& At(uint64_t sequence) {
    Meeting& meeting = meetings[sequence];
    meeting.parts.resize(static_cast<size_t>(size));
    return meeting;
  }
};

namespace {

// Holds the tensors until the waiting stream is ordered after the collective, as ProcessGroupNCCL does.
class MockWork final : public c10d::Work {
 public:
  MockWork(Event end, int device, std::vector<at::Tensor> tensors, std::shared_ptr<MockGroup::Hub> hub)
      : end_(std::move(end)), device_(device), tensors_(std::move(tensors)), hub_(std::move(hub)) {}
  bool isCompleted() override { return Machine::Get().Query(end_); }
  bool wait(std::chrono::milliseconds) override {
    {
      const auto lock = Machine::Get().Hold();
      TORCH_CHECK(!hub_->aborted, "mock group: the communicator was aborted");
      Machine::Get().Wait(CurrentStream(device_), end_);
    }
    tensors_.clear();
    return true;
  }
  void synchronize() override { wait(kNoTimeout); }

 private:
  Event end_;
  int device_;
  std::vector<at::Tensor> tensors_;
  std::shared_ptr<MockGroup::Hub> hub_;
};

}  // namespace

MockGroup::MockGroup(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size) : Backend(rank, size) {
  const auto device = static_cast<c10::DeviceIndex>(CurrentDevice());
  stream_ = device * kStreamsPerDevice +
            static_cast<int>(c10::impl::VirtualGuardImpl(at::kCUDA).getStreamFromGlobalPool({at::kCUDA, device}).id());
  // Rank 0 makes what all share; the others find its address in the store, since they are threads of this process.
  std::vector<uint8_t> address(sizeof(void*));
  if (rank == 0) {
    auto* shared = new std::shared_ptr<Hub>(std::make_shared<Hub>());  // the store's, and so never deleted
    (*shared)->size = size;
    std::memcpy(address.data(), static_cast<void*>(&shared), sizeof(void*));
    store->set("mock group", address);
  }
  address = store->get("mock group");
  std::shared_ptr<Hub>* shared = nullptr;
  TORCH_CHECK(address.size() == sizeof(void*), "mock group: not a group of this process");
  std::memcpy(static_cast<void*>(&shared), address.data(), sizeof(void*));
  hub_ = *shared;
}

c10::intrusive_ptr<c10d::Work> MockGroup::Start(const std::string& kind, const at::Tensor& output,
                                                const at::Tensor& input, int root) {
  Machine& machine = Machine::Get();
  const auto lock = machine.Hold();
  TORCH_CHECK(!hub_->aborted, "mock group: the communicator was aborted");
  const int device = DeviceOf(stream_);
  TORCH_CHECK(input.get_device() == device && output.get_device() == device, "mock group: ", kind,
              " of a tensor that is not on the group's device, cuda:", device);
  machine.Wait(stream_, machine.Record(CurrentStream(device)));
  Shadows views;
  const at::Tensor in = views.Of(input, false), out = views.Of(output, true);
  const std::string call = absl::StrCat(kind, " ", input.numel(), " ", output.numel(), " ",
                                        static_cast<int>(input.scalar_type()), " ", root);
  const uint64_t sequence = ++sequence_;
  const auto ready = [hub = hub_, sequence, part = Part{out, in, call}, kind, root, rank = getRank()] {
    Meeting& meeting = hub->At(sequence);
    meeting.kind = kind;
    meeting.root = root;
    meeting.parts[static_cast<size_t>(rank)] = part;
    return hub->aborted || meeting.ran || meeting.Complete();
  };
  const auto run = [hub = hub_, sequence, kind] {
    std::optional<Meeting> meeting;
    {
      const auto held = Machine::Get().Hold();
      TORCH_CHECK(!hub->aborted, "mock group: ", kind, " was aborted");
      if (!hub->At(sequence).ran) meeting = hub->At(sequence);
      hub->At(sequence).ran = true;
    }
    if (meeting.has_value()) RunAll(*meeting);
    const auto held = Machine::Get().Hold();
    if (++hub->At(sequence).left == hub->size) hub->meetings.erase(sequence);
  };
  machine.Launch(stream_, {kind, views.TakeUses(), run, ready});
  return c10::make_intrusive<MockWork>(machine.Record(stream_), device, std::vector<at::Tensor>{output, input}, hub_);
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
    hub_->aborted = true;
  }
  Machine::Get().Wake();
}

}  // namespace composer::mock
