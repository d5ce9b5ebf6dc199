// SPDX-License-Identifier: Apache-2.0
#include "tests/support/accelerator/machine.h"

#include <ATen/Parallel.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "absl/strings/str_cat.h"

namespace composer::mock {
namespace {

constexpr size_t kMostKept = 10000;  // faults and waits that nobody takes
constexpr size_t kLongQueue = 4096;  // runs even if no host waits, to limit memory

thread_local int current_device = 0;
thread_local std::array<int, kDevices> current_streams = {0, 0, 0, 0};  // within the device

}  // namespace

int CurrentDevice() { return current_device; }
void SetCurrentDevice(int device) {
  TORCH_CHECK(device >= 0 && device < kDevices, "mock accelerator: there is no device ", device);
  current_device = device;
}
int CurrentStream(int device) { return device * kStreamsPerDevice + current_streams[static_cast<size_t>(device)]; }
void SetCurrentStream(int stream) {
  current_streams[static_cast<size_t>(DeviceOf(stream))] = stream % kStreamsPerDevice;
}

// Never destroyed: its thread runs until the process ends.
Machine& Machine::Get() {
  static Machine& machine = *new Machine;
  return machine;
}

void Machine::Restart(uint64_t seed) {
  for (int device = 0; device < kDevices; ++device) WaitForDevice(device, "restart");
  const Lock lock = Hold();
  random_.seed(seed);
  for (Stream& stream : streams_) stream.priority = random_();
  credits_ = 0;
  calls_.fill(0);
  forgotten_.fill(-1);
  faults_.clear();
  waits_.clear();
}

void Machine::SetTape(int device, Tape* tape) {
  const Lock lock = Hold();
  tapes_[static_cast<size_t>(device)] = tape;
}

void Machine::RefuseInCapture(int device, const std::string& what) const {
  if (TapeOf(device) != nullptr) TapeOf(device)->Refuse(what);
}

void Machine::Launch(int stream, Operation operation) {
  const Lock lock = Hold();
  if (Tape* const tape = TapeOf(DeviceOf(stream)); tape != nullptr) {
    if (tape->Takes(stream)) return tape->Launch(stream, operation);
    if (!operation.uses.empty())
      tape->Refuse(absl::StrCat(operation.name, " on stream ", stream, ", which is not captured"));
  }
  LaunchBesides(stream, std::move(operation));
}

void Machine::LaunchBesides(int stream, Operation operation) {
  const Lock lock = Hold();
  if (!started_) {
    started_ = true;
    std::thread([this] { RunForever(); }).detach();
  }
  Stream& to = At(stream);
  to.clock.Join(hosts_[static_cast<size_t>(DeviceOf(stream))]);
  const Epoch epoch = operation.uses.empty() ? Epoch{stream, to.clock.At(stream)} : to.clock.Next(stream);
  for (const Access& access : operation.uses) {
    const std::string message = races_.Use(access, epoch, to.clock, operation.name);
    if (!message.empty()) Fault(message);
  }
  to.queue.push_back(std::move(operation));
  if (random_() % 8 == 0) credits_ += static_cast<int64_t>(random_() % 12);
  if (to.queue.size() > kLongQueue) credits_ += 64;
  if (credits_ > 0 || !awaited_.empty()) work_.notify_one();
}

Clock Machine::ClockOf(int stream) const {
  Clock clock = streams_[static_cast<size_t>(stream)].clock;
  clock.Join(hosts_[static_cast<size_t>(DeviceOf(stream))]);
  return clock;
}

Event Machine::Record(int stream) {
  const Lock lock = Hold();
  Tape* const tape = TapeOf(DeviceOf(stream));
  if (tape == nullptr || !tape->Takes(stream)) return RecordBesides(stream);
  const auto event = std::make_shared<EventState>();
  event->device = DeviceOf(stream);
  tape->Record(stream, event);
  return event;
}

Event Machine::RecordBesides(int stream) {
  const Lock lock = Hold();
  const auto event = std::make_shared<EventState>();
  LaunchBesides(stream, {"event", {}, [event] { event->done = true; }});
  event->clock = At(stream).clock;
  event->device = DeviceOf(stream);
  return event;
}

void Machine::Wait(int stream, const Event& event) {
  const Lock lock = Hold();
  if (Tape* const tape = TapeOf(DeviceOf(stream)); tape != nullptr && tape->Wait(stream, event)) return;
  At(stream).clock.Join(event->clock);
  LaunchBesides(stream, {"wait", {}, [] {}, [event] { return event->done.load(); }});
}

bool Machine::Query(const Event& event) {
  const Lock lock = Hold();
  if (TapeOf(event->device) != nullptr && TapeOf(event->device)->IsOfThisThread())
    RefuseInCapture(event->device, "a question whether an event is done");
  if (event->done) {
    hosts_[static_cast<size_t>(event->device)].Join(event->clock);
    for (const auto& fn : on_host_wait_) fn();
    return true;
  }
  credits_ += 16;  // a host that asks again and again must get an answer
  work_.notify_one();
  return false;
}

void Machine::AwaitLocked(Lock& lock, const Event& event) {
  awaited_.push_back(event);
  work_.notify_one();
  uint64_t seen = progress_;
  while (!event->done) {
    const auto status = done_.wait_for(lock, stuck_limit_);
    if (status == std::cv_status::timeout && seen == progress_ && !event->done) {
      awaited_.erase(std::find(awaited_.begin(), awaited_.end(), event));
      TORCH_CHECK(false, "mock accelerator: no stream can go on: ", Stuck());
    }
    seen = progress_;
  }
  awaited_.erase(std::find(awaited_.begin(), awaited_.end(), event));
}

void Machine::WaitForHost(const Event& event, const std::string& reason) {
  Lock lock = Hold();
  RefuseInCapture(event->device, absl::StrCat("a wait of the host (", reason, ")"));
  if (waits_.size() < kMostKept) waits_.push_back(reason);
  AwaitLocked(lock, event);
  hosts_[static_cast<size_t>(event->device)].Join(event->clock);
  for (const auto& fn : on_host_wait_) fn();
  Rethrow(event->device);
}

void Machine::WaitForDevice(int device, const std::string& reason) {
  Lock lock = Hold();
  RefuseInCapture(device, absl::StrCat("a wait of the host (", reason, ")"));
  if (waits_.size() < kMostKept) waits_.push_back(reason);
  for (int i = 0; i < kStreamsPerDevice; ++i) {
    const int stream = device * kStreamsPerDevice + i;
    if (At(stream).queue.empty() && !At(stream).busy && At(stream).clock.At(stream) == 0) continue;
    const Event event = Record(stream);
    AwaitLocked(lock, event);
    hosts_[static_cast<size_t>(device)].Join(event->clock);
  }
  for (const auto& fn : on_host_wait_) fn();
  Rethrow(device);
}

void Machine::Drain(int stream) {
  Lock lock = Hold();
  RefuseInCapture(DeviceOf(stream), "what the mock runs at once");
  AwaitLocked(lock, Record(stream));
}

void Machine::Wake() {
  const Lock lock = Hold();
  credits_ += 64;
  work_.notify_one();
}

void Machine::SetStuckLimit(std::chrono::milliseconds limit) {
  const Lock lock = Hold();
  stuck_limit_ = limit;
}

// As on a GPU, an error shows at a later wait.
void Machine::Rethrow(int device) {
  std::exception_ptr error;
  std::swap(error, errors_[static_cast<size_t>(device)]);
  if (error != nullptr) std::rethrow_exception(error);
}

void Machine::Forget(ProgramCall call, int64_t number) {
  const Lock lock = Hold();
  calls_[static_cast<size_t>(call)] = 0;
  forgotten_[static_cast<size_t>(call)] = number;
}

bool Machine::Forgets(ProgramCall call) {
  const Lock lock = Hold();
  return calls_[static_cast<size_t>(call)]++ == forgotten_[static_cast<size_t>(call)];
}

bool Machine::ForgetsWait(int stream, const Event& event) {
  const Lock lock = Hold();
  if (!Forgets(ProgramCall::kStreamWait)) return false;
  forgotten_was_covered_ = ClockOf(stream).Covers(event->clock);
  return true;
}

bool Machine::ForgottenWaitWasCovered() {
  const Lock lock = Hold();
  return forgotten_was_covered_;
}

int64_t Machine::CallsOf(ProgramCall call) {
  const Lock lock = Hold();
  return calls_[static_cast<size_t>(call)];
}

void Machine::Fault(std::string message) {
  const Lock lock = Hold();
  if (on_fault_ != nullptr) return on_fault_(message);
  if (faults_.size() < kMostKept) faults_.push_back(std::move(message));
}

void Machine::OnFault(std::function<void(const std::string&)> fn) {
  const Lock lock = Hold();
  on_fault_ = std::move(fn);
}

std::vector<std::string> Machine::TakeFaults() {
  const Lock lock = Hold();
  return std::exchange(faults_, {});
}

std::vector<std::string> Machine::TakeWaits() {
  const Lock lock = Hold();
  return std::exchange(waits_, {});
}

std::string Machine::Stuck() const {
  std::string text;
  for (size_t i = 0; i < streams_.size(); ++i) {
    if (!streams_[i].queue.empty()) absl::StrAppend(&text, "stream ", i, " at ", streams_[i].queue.front().name, "; ");
  }
  return text;
}

// Mostly the stream that the seed prefers, so that others are late for long; sometimes any.
Machine::Stream* Machine::Choose() {
  std::vector<Stream*> ready;
  for (Stream& stream : streams_) {
    if (!stream.queue.empty() && (stream.queue.front().ready == nullptr || stream.queue.front().ready()))
      ready.push_back(&stream);
  }
  if (ready.empty()) return nullptr;
  if (random_() % 4 == 0) return ready[random_() % ready.size()];
  return *std::max_element(ready.begin(), ready.end(),
                           [](const Stream* a, const Stream* b) { return a->priority < b->priority; });
}

void Machine::RunForever() {
  at::init_num_threads();
  const at::AutoDispatchBelowADInplaceOrView below;
  Lock lock = Hold();
  for (;;) {
    Stream* stream = !awaited_.empty() || credits_ > 0 ? Choose() : nullptr;
    if (stream == nullptr) {
      credits_ = 0;
      work_.wait(lock);
      continue;
    }
    if (awaited_.empty()) --credits_;
    Operation operation = std::move(stream->queue.front());
    stream->queue.pop_front();
    stream->busy = true;
    std::exception_ptr error;
    lock.unlock();
    try {
      operation.run();
    } catch (...) {
      error = std::current_exception();
    }
    operation = {};  // what it holds is released before others go on, and without the lock
    lock.lock();
    stream->busy = false;
    ++progress_;
    auto& slot = errors_[static_cast<size_t>(DeviceOf(static_cast<int>(stream - streams_.data())))];
    if (error != nullptr && slot == nullptr) slot = error;
    // The hosts are not woken by each operation: that took more time than the operations.
    if (std::any_of(awaited_.begin(), awaited_.end(), [](const Event& event) { return event->done.load(); }))
      done_.notify_all();
  }
}

}  // namespace composer::mock
