// Watches the collectives of a rank that no thread of its host waits for (NCCL's), since a peer that is gone, or that
// came with another call, leaves them hanging on the GPU without a word. When none has ended for the time-out, the
// watch asks the store where the other ranks are, writes what it knows to a file, aborts the groups, and says which
// rank has not come or which calls differ.
//
// A rank that starts no collective and ends none for a while writes its last calls into the store; a rank that goes on
// writes nothing.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/Device.h>
#include <c10/core/Event.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "absl/status/status.h"
#include "trainer/collectives/collective_call.h"

namespace composer {

// What a rank has started last in a group, oldest first.
using LastCalls = std::deque<CollectiveCall>;

// Says why `stuck` of `rank` does not end, from what the ranks of its group have said; nullopt: nothing.
std::string ExplainStuck(const CollectiveCall& stuck, int rank, const std::vector<std::optional<LastCalls>>& by_rank);

// Threads: the methods but Abandon may be called by one thread; Abandon by any.
class CollectiveWatch {
 public:
  using Millis = std::chrono::milliseconds;
  struct Options {
    c10::Device device = at::kCPU;          // of the events
    Millis timeout{300000};                 // without the end of a collective
    bool check_calls = false;               // compare the calls before each collective, over the store: slow
    c10::intrusive_ptr<c10d::Store> store;  // a prefix of its own
    std::string record_path;                // of the file; its folder is made
    std::function<std::string()> backend_record = nullptr;   // the backend's own record, as JSON
    std::function<void(const absl::Status&)> on_stuck = {};  // called once, on the watch's thread
  };
  explicit CollectiveWatch(Options options);
  ~CollectiveWatch();
  CollectiveWatch(const CollectiveWatch&) = delete;
  CollectiveWatch& operator=(const CollectiveWatch&) = delete;

  // Returns the number of a group of ranks for the calls below; `name` is unique.
  size_t Join(const std::string& name, c10::intrusive_ptr<c10d::Backend> backend);
  // Must be called before a collective starts. Throws StatusError when check_calls finds calls that differ.
  void Starts(size_t group, const CollectiveCall& call);
  // Must be called when the current stream has been made to wait for the collective.
  void Awaited(size_t group, const CollectiveCall& call);

  // While it is paused, collectives are not watched: those that a graph captures do not run.
  void Pause(bool on);

  // Writes the file, and aborts all groups within `limit`, whatever their state. Returns "; flight record: PATH", or ""
  // when it could not be written.
  std::string Abandon(const std::string& why, Millis limit);

 private:
  struct Group {
    std::string name;
    c10::intrusive_ptr<c10d::Backend> backend;
    LastCalls calls;
    int64_t ended = 0;  // the number of the last collective that is known to have ended
  };
  struct Pending {
    size_t group;
    CollectiveCall call;
    c10::Event event;
  };

  void Run();
  void TakeEnded();
  void Report(const Group& group, const CollectiveCall& stuck);
  void Publish(const std::deque<Group>& groups);
  std::string Explain(const Group& group, const CollectiveCall& stuck);
  std::optional<LastCalls> CallsOf(const Group& group, int rank);
  void CompareCalls(const Group& group, const CollectiveCall& call);
  std::string Record(const std::string& why);

  const Options options_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Group> groups_;      // grows only
  std::deque<Pending> pending_;   // in the order of the calls
  std::vector<c10::Event> free_;  // to be used again
  std::chrono::steady_clock::time_point last_progress_;
  bool published_ = false;
  bool paused_ = false;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace composer
