// Streams, events and the one thread that runs what was queued on them. Nothing runs when it is launched: the thread
// begins when a host waits, or now and then as the seed says, and takes the streams' operations in any order that
// nothing forbids. One lock guards all the mock's books; the operations themselves run without it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <vector>

#include "tests/support/accelerator/arena.h"
#include "tests/support/accelerator/clock.h"
#include "tests/support/accelerator/races.h"

namespace composer::mock {

inline constexpr int kStreamsPerDevice = 32;  // stream 0 of a device is its default

// What a program must not leave out; see Machine::Forget.
enum class ProgramCall { kStreamWait, kRecordStream, kHostWait };

inline int DeviceOf(int stream) { return stream / kStreamsPerDevice; }

struct EventState {
  std::atomic<bool> done = false;
  Clock clock;
  int device = 0;
};
using Event = std::shared_ptr<EventState>;

struct Operation {
  std::string name;
  std::vector<Access> uses;
  std::function<void()> run;
  std::function<bool()> ready = nullptr;  // asked with the lock held; null: at once
  // Set only in a graph, of an operation that is another one at each replay: makes it.
  std::function<Operation()> make = nullptr;
};

// What a device's streams are given while a graph is captured (graphs.h). Called with the machine's lock held.
class Tape {
 public:
  virtual ~Tape() = default;
  // Returns whether the stream is captured.
  virtual bool Takes(int stream) const = 0;
  virtual void Launch(int stream, const Operation& operation) = 0;
  virtual void Record(int stream, const Event& event) = 0;
  // Returns whether the wait was taken: the stream is captured, or is from here on.
  virtual bool Wait(int stream, const Event& event) = 0;
  // Throws: the host does what it must not do during a capture, which is of no use from here on.
  [[noreturn]] virtual void Refuse(const std::string& what) = 0;
  // Returns whether the calling thread has begun the capture: others may ask for events of before.
  virtual bool IsOfThisThread() const = 0;
};

class Machine {
 public:
  using Lock = std::unique_lock<std::recursive_mutex>;
  static Machine& Get();

  Lock Hold() { return Lock(mutex_); }
  Races& races() { return races_; }

  // Chooses the order of streams from here on, and forgets faults and counted waits.
  void Restart(uint64_t seed);
  // How streams that could run are chosen between; all threads.
  void Launch(int stream, Operation operation);
  Event Record(int stream);
  void Wait(int stream, const Event& event);
  bool Query(const Event& event);

  // The host waits, and then knows what the stream or event knew. `reason` is counted and shown by Waits. Throws what
  // an operation threw.
  void WaitForHost(const Event& event, const std::string& reason);
  void WaitForDevice(int device, const std::string& reason);
  // Runs the stream's operations so far for the mock's own needs; the host learns nothing from it.
  void Drain(int stream);
  bool HostKnows(const Epoch& epoch) const { return hosts_[static_cast<size_t>(DeviceOf(epoch.stream))].Knows(epoch); }
  // What an operation launched on the stream now would know.
  Clock ClockOf(int stream) const;

  // Looks again at what can run, after something outside the streams has changed.
  void Wake();
  // How long a host waits while no stream can go on, before it throws.
  void SetStuckLimit(std::chrono::milliseconds limit);

  // Takes what is launched on the device from here on; null: the streams do.
  void SetTape(int device, Tape* tape);
  // The tape of the device, or null.
  Tape* TapeOf(int device) const { return tapes_[static_cast<size_t>(device)]; }
  // Launches and records on the stream, captured or not: for the mock's own books.
  void LaunchBesides(int stream, Operation operation);
  Event RecordBesides(int stream);

  // Plants a mistake: of the calls of this kind that the program makes from here on, the `number`-th, from 0, does
  // nothing. Until Restart.
  void Forget(ProgramCall call, int64_t number);
  // Counts a call of the program; returns whether it is the one to leave out.
  bool Forgets(ProgramCall call);
  // The same of a wait of the stream for the event.
  bool ForgetsWait(int stream, const Event& event);
  // Returns whether the wait that was left out told its stream nothing new: all operations before the event that use
  // memory were known to be finished by other waits. Nothing can depend on such a wait.
  bool ForgottenWaitWasCovered();
  // Returns how many there were since Restart.
  int64_t CallsOf(ProgramCall call);

  void Fault(std::string message);
  // Called with each fault, in place of keeping it.
  void OnFault(std::function<void(const std::string&)> fn);
  std::vector<std::string> TakeFaults();
  std::vector<std::string> TakeWaits();
  // Called with the lock held after a host has learnt something.
  void OnHostWait(std::function<void()> fn) { on_host_wait_.push_back(std::move(fn)); }

 private:
  struct Stream {
    Clock clock;
    std::deque<Operation> queue;
    uint64_t priority = 0;
    bool busy = false;
  };

  void RunForever();
  Stream* Choose();
  void AwaitLocked(Lock& lock, const Event& event);
  void RefuseInCapture(int device, const std::string& what) const;
  void Rethrow(int device);
  Stream& At(int stream) { return streams_[static_cast<size_t>(stream)]; }
  std::string Stuck() const;

  std::recursive_mutex mutex_;
  std::condition_variable_any work_, done_;
  std::array<Stream, kDevices * kStreamsPerDevice> streams_;
  std::array<Clock, kDevices> hosts_;
  std::array<std::exception_ptr, kDevices> errors_;
  std::array<Tape*, kDevices> tapes_{};
  Races races_;
  std::mt19937_64 random_;
  bool started_ = false;
  std::chrono::milliseconds stuck_limit_{100000};
  std::vector<Event> awaited_;  // by hosts, each host's own
  int64_t credits_ = 0;         // operations that may run although no host waits
  uint64_t progress_ = 0;
  std::vector<std::string> faults_, waits_;
  std::array<int64_t, 3> calls_{}, forgotten_{-1, -1, -1};  // by kind
  bool forgotten_was_covered_ = false;
  std::vector<std::function<void()>> on_host_wait_;
  std::function<void(const std::string&)> on_fault_;
};

// The calling thread's device and current streams, as CUDA has them.
int CurrentDevice();
void SetCurrentDevice(int device);
int CurrentStream(int device);
void SetCurrentStream(int stream);
inline int CurrentStream() { return CurrentStream(CurrentDevice()); }

}  // namespace composer::mock
