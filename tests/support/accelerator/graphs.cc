// SPDX-License-Identifier: Apache-2.0
#include "tests/support/accelerator/graphs.h"

#include <c10/util/Exception.h>

#include <map>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/support/accelerator/pinned_allocator.h"

namespace composer::mock {
namespace {

class MockGraph final : public DeviceGraph {
 public:
  MockGraph(std::vector<TapeEntry> entries, std::shared_ptr<MockDeviceAllocator::GraphMemory> memory, int origin)
      : entries_(std::move(entries)), memory_(std::move(memory)), origin_(origin) {}
  ~MockGraph() override { MockDeviceAllocator::Get().Release(*memory_); }

  void Replay() override {
    Machine& machine = Machine::Get();
    const auto lock = machine.Hold();
    TORCH_CHECK(CurrentStream(DeviceOf(origin_)) == origin_, "mock accelerator: a graph is replayed on another stream");
    std::map<const EventState*, Event> events;  // of this replay, by those of the capture
    for (const TapeEntry& entry : entries_) {
      switch (entry.kind) {
        case TapeEntry::Kind::kLaunch:
          Launch(entry);
          break;
        case TapeEntry::Kind::kRecord:
          events[entry.event.get()] = machine.Record(entry.stream);
          break;
        case TapeEntry::Kind::kWait:
          machine.Wait(entry.stream, events.at(entry.event.get()));
          break;
      }
    }
  }

 private:
  static void Launch(const TapeEntry& entry) {
    Machine& machine = Machine::Get();
    const Operation& operation = entry.operation;
    for (size_t i = 0; i < operation.uses.size(); ++i) {
      if (machine.races().AllocationOf(operation.uses[i].begin) != entry.allocations[i])
        machine.Fault(absl::StrCat(operation.name, " of a graph uses memory that was freed after the capture"));
    }
    machine.Launch(entry.stream, operation.make != nullptr ? operation.make() : operation);
    for (const Access& access : operation.uses) {
      const auto* const address = reinterpret_cast<const void*>(access.begin);
      if (PinnedArena().Contains(address)) MockPinnedAllocator::Get().CopyLaunched(address);
    }
  }

  std::vector<TapeEntry> entries_;
  std::shared_ptr<MockDeviceAllocator::GraphMemory> memory_;
  int origin_;
};

}  // namespace

class MockGraphs::Recording final : public Tape {
 public:
  explicit Recording(int origin) : origin_(origin) { streams_.insert(origin); }

  bool Takes(int stream) const override { return streams_.contains(stream); }
  void Launch(int stream, const Operation& operation) override {
    TapeEntry entry{TapeEntry::Kind::kLaunch, stream, operation};
    for (const Access& access : operation.uses)
      entry.allocations.push_back(Machine::Get().races().AllocationOf(access.begin));
    clocks_[stream].Next(stream);
    entries_.push_back(std::move(entry));
  }
  void Record(int stream, const Event& event) override {
    recorded_[event.get()] = clocks_[stream];
    entries_.push_back({TapeEntry::Kind::kRecord, stream, {}, {}, event});
  }
  bool Wait(int stream, const Event& event) override {
    const auto found = recorded_.find(event.get());
    if (found == recorded_.end()) {
      if (Takes(stream)) Refuse(absl::StrCat("a wait of stream ", stream, " for what was recorded before"));
      return false;
    }
    streams_.insert(stream);
    clocks_[stream].Join(found->second);
    entries_.push_back({TapeEntry::Kind::kWait, stream, {}, {}, event});
    return true;
  }
  void Refuse(const std::string& what) override {
    if (error_.empty()) error_ = absl::StrCat("operation not permitted when stream is capturing: ", what);
    TORCH_CHECK(false, "mock accelerator: ", error_);
  }

  bool IsOfThisThread() const override { return thread_ == std::this_thread::get_id(); }

  // Returns what makes the recording useless, "" if nothing does.
  std::string Error() {
    if (!error_.empty()) return error_;
    for (const int stream : streams_) {
      if (!clocks_[origin_].Knows({stream, clocks_[stream].At(stream)}))
        return absl::StrCat("stream ", stream, " is captured, and the first stream does not wait for its end");
    }
    return "";
  }
  std::vector<TapeEntry> TakeEntries() { return std::move(entries_); }
  int origin() const { return origin_; }

 private:
  const int origin_;
  const std::thread::id thread_ = std::this_thread::get_id();
  std::set<int> streams_;
  std::map<int, Clock> clocks_;
  std::map<const EventState*, Clock> recorded_;
  std::vector<TapeEntry> entries_;
  std::string error_;
};

MockGraphs::MockGraphs() = default;
MockGraphs::~MockGraphs() = default;

void MockGraphs::Begin() {
  const auto lock = Machine::Get().Hold();
  device_ = CurrentDevice();
  const int stream = CurrentStream();
  TORCH_CHECK(stream % kStreamsPerDevice != 0, "mock accelerator: the default stream cannot be captured");
  TORCH_CHECK(recording_ == nullptr, "mock accelerator: a capture is under way");
  recording_ = std::make_unique<Recording>(stream);
  memory_ = MockDeviceAllocator::Get().OpenGraphMemory(device_);
  Machine::Get().SetTape(device_, recording_.get());
}

std::unique_ptr<DeviceGraph> MockGraphs::End() {
  const auto lock = Machine::Get().Hold();
  const std::string error = recording_->Error();
  if (!error.empty()) {
    Abandon();
    TORCH_CHECK(false, "mock accelerator: ", error);
  }
  Machine::Get().SetTape(device_, nullptr);
  MockDeviceAllocator::Get().CloseGraphMemory(device_);
  const std::unique_ptr<Recording> recording = std::move(recording_);
  return std::make_unique<MockGraph>(recording->TakeEntries(), std::move(memory_), recording->origin());
}

void MockGraphs::Abandon() {
  const auto lock = Machine::Get().Hold();
  if (recording_ == nullptr) return;
  Machine::Get().SetTape(device_, nullptr);
  MockDeviceAllocator::Get().CloseGraphMemory(device_);
  MockDeviceAllocator::Get().Release(*memory_);
  memory_.reset();
  recording_.reset();
}

}  // namespace composer::mock
