// A worker's link to its launcher: reports where training stands, and receives requests to stop.
//
// A separate thread sends the heartbeat; the training thread only stores numbers. When the launcher ends the
// generation, or is gone, the agent leaves at once, whatever the training thread is blocked in: `leave` runs on a gRPC
// thread and by default is _exit(69).
// Thread-safe, except that RecordStep and ReportStarted may be called by only one thread. RecordStep takes no lock,
// makes no system call and allocates nothing.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/channel.h>

#include <atomic>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "absl/strings/string_view.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "contract/progress_page.h"
#include "proto/worker.pb.h"

namespace composer {

// Prints `why` and ends the process with 69, without running destructors.
[[noreturn]] void LeaveAtOnce(const std::string& why);

class WorkerAgent {
 public:
  struct Options {
    // Made with ChannelSettings(Link::kLocal). If null, there is no launcher: nothing is sent and nobody asks to stop.
    std::shared_ptr<grpc::Channel> hub;
    proto::Caller caller;
    proto::Hello hello;
    std::optional<ProgressPage> page;
    absl::Duration heartbeat = absl::Milliseconds(500);
    // Writes the stacks of this process's threads into the folder. Called on a thread of its own, one call at a time:
    // a request that comes meanwhile is dropped. Empty: such requests have no effect.
    std::function<void(const std::string& folder)> write_stacks = {};
    std::function<void(const std::string& why)> leave = LeaveAtOnce;  // called at most once; must not destroy the agent
  };

  // Attaches in the background: if the launcher refuses or cannot be reached, `leave` is called.
  explicit WorkerAgent(Options options);
  // Detaches without a final report, unless Finish was called.
  ~WorkerAgent();

  // Must be called after each optimizer step, with the steps and samples since the run began, the loss of this step
  // and the share of the last steps' time in which this rank waited for batches.
  void RecordStep(int64_t batch, int64_t samples, double loss, double data_wait);
  // Sets the phase, and also sends it at once.
  void SetPhase(proto::Phase phase);
  // Reports, after loading, where the run continues. `checkpoint` is empty when the run starts from scratch.
  void ReportStarted(absl::string_view checkpoint, int64_t batch, int64_t samples);
  void ReportCheckpointSaved(absl::string_view path, int64_t batch);
  // Sends the final report. Waits, at most a second, until the launcher has it. `leave` is not called from now on.
  void Finish(proto::ExitReport report);

  // Returns whether the launcher asked for a checkpoint at the next common step; true once per request.
  bool TakeSaveRequest() {
    return save_.load(std::memory_order_relaxed) && save_.exchange(false, std::memory_order_relaxed);
  }
  // Returns whether the launcher asked for a profile of the next batches; true once per request.
  bool TakeProfileRequest() {
    return profile_.load(std::memory_order_relaxed) && profile_.exchange(false, std::memory_order_relaxed);
  }
  // Returns whether the launcher asked to stop at a common step, save, and leave with 75. Stays true.
  bool drain_requested() const { return drain_.load(std::memory_order_relaxed); }

 private:
  class Stream;

  void Hear(const proto::LauncherMessage& message);
  void WriteStacks(const std::string& folder);
  void Beat();
  void RunHeartbeat();

  const absl::Duration heartbeat_;
  const std::function<void(const std::string&)> write_stacks_;
  std::optional<ProgressPage> page_;
  std::atomic<int64_t> batch_{0};
  std::atomic<int64_t> samples_{0};
  std::atomic<double> loss_{std::numeric_limits<double>::quiet_NaN()};
  std::atomic<int> phase_{proto::PHASE_STARTING};
  std::atomic<bool> drain_{false};
  std::atomic<bool> save_{false};
  std::atomic<bool> profile_{false};
  std::atomic<bool> writes_stacks_{false};
  std::thread stacks_thread_;       // the last call of write_stacks_; owned by the stream's reactions
  std::unique_ptr<Stream> stream_;  // null: no launcher
  absl::Notification stop_;
  std::thread thread_;  // runs RunHeartbeat
};

}  // namespace composer
