// What the viewers of the dashboard at `/` of the HTTP port are sent: the job's status with all of its nodes, and the
// news of each viewer. It answers on a thread of its own, because a file system or the rendezvous may be slow.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "launcher/control/dashboard_viewer.h"
#include "launcher/control/trace_files.h"
#include "proto/control.pb.h"

namespace composer {

// The page itself: one HTML file that needs nothing from elsewhere. The source is launcher/control/dashboard.html.
extern const char kDashboardPage[];

// Thread-safe.
class DashboardData {
 public:
  using Receiver = std::function<void(absl::StatusOr<std::string>)>;

  struct Options {
    DashboardViewer::Source source;
    std::function<void(proto::JobStatus&)> complete;  // adds the other nodes; may take a second; null without any
  };
  explicit DashboardData(Options options);
  ~DashboardData() { Stop(); }

  const Options& options() const { return options_; }

  // Each calls the receiver once, on this object's thread, with events; with kUnavailable at once when 64 requests
  // wait, or after Stop.
  void Job(proto::JobStatus status, Receiver receiver);
  // Nobody else may use the viewer, or the download, until the answer.
  void News(std::shared_ptr<DashboardViewer> viewer, Receiver receiver);

  void Part(std::shared_ptr<TraceDownload> download, Receiver receiver);

  // Waits for the request that is being answered; the others are dropped.
  void Stop();

 private:
  void Post(std::function<void()> task, const Receiver& receiver);
  void Run();

  const Options options_;
  absl::Mutex mutex_;
  std::deque<std::function<void()>> tasks_ ABSL_GUARDED_BY(mutex_);
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace composer
