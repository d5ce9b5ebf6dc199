// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>

#include <cstring>
#include <map>
#include <optional>

#include "absl/strings/str_cat.h"
#include "tests/support/accelerator/exchange.h"
#include "tests/support/accelerator/machine.h"
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

// Guarded by the machine's lock; `meetings` is by the number of the collective.
struct Hub {
  int size = 0;
  bool aborted = false;
  std::map<uint64_t, Meeting> meetings;

  Meeting& At(uint64_t sequence) {
    Meeting& meeting = meetings[sequence];
    meeting.parts.resize(static_cast<size_t>(size));
    return meeting;
  }
};

class OfThreads final : public Exchange {
 public:
  explicit OfThreads(std::shared_ptr<Hub> hub) : hub_(std::move(hub)) {}
  bool aborted() const override { return hub_->aborted; }
  void Abort() override { hub_->aborted = true; }
  bool Ready(const Collective& collective) override {
    Meeting& meeting = hub_->At(collective.sequence);
    meeting.kind = collective.kind;
    meeting.root = collective.root;
    meeting.parts[static_cast<size_t>(collective.rank)] =
        Part{collective.output, collective.input,
             absl::StrCat(collective.kind, " ", collective.input.numel(), " ", collective.output.numel(), " ",
                          static_cast<int>(collective.input.scalar_type()), " ", collective.root)};
    return hub_->aborted || meeting.ran || meeting.Complete();
  }
  void Run(const Collective& collective) override {
    std::optional<Meeting> meeting;
    {
      const auto held = Machine::Get().Hold();
      TORCH_CHECK(!hub_->aborted, "mock group: ", collective.kind, " was aborted");
      if (!hub_->At(collective.sequence).ran) meeting = hub_->At(collective.sequence);
      hub_->At(collective.sequence).ran = true;
    }
    if (meeting.has_value()) RunAll(*meeting);
    const auto held = Machine::Get().Hold();
    if (++hub_->At(collective.sequence).left == hub_->size) hub_->meetings.erase(collective.sequence);
  }

 private:
  std::shared_ptr<Hub> hub_;
};

}  // namespace

std::shared_ptr<Exchange> ExchangeOfThreads(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size) {
  std::vector<uint8_t> address(sizeof(void*));
  if (rank == 0) {
    auto* shared = new std::shared_ptr<Hub>(std::make_shared<Hub>());  // deleted by the rank that copies it last
    (*shared)->size = size;
    std::memcpy(address.data(), static_cast<void*>(&shared), sizeof(void*));
    store->set("mock group", address);
  }
  address = store->get("mock group");
  std::shared_ptr<Hub>* shared = nullptr;
  TORCH_CHECK(address.size() == sizeof(void*), "mock group: not a group of this process");
  std::memcpy(static_cast<void*>(&shared), address.data(), sizeof(void*));
  auto exchange = std::make_shared<OfThreads>(*shared);
  if (store->add("mock group's ranks", 1) == size) delete shared;
  return exchange;
}

}  // namespace composer::mock
