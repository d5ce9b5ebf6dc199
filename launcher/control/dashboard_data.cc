// SPDX-License-Identifier: Apache-2.0
#include "launcher/control/dashboard_data.h"

#include <utility>

#include "launcher/control/job_status.h"

namespace composer {
namespace {

constexpr size_t kMaxRequests = 64;

}  // namespace

DashboardData::DashboardData(Options options) : options_(std::move(options)), thread_([this] { Run(); }) {}

void DashboardData::Post(std::function<void()> task, const Receiver& receiver) {
  {
    const absl::MutexLock lock(&mutex_);
    if (!stopped_ && tasks_.size() < kMaxRequests) {
      tasks_.push_back(std::move(task));
      return;
    }
  }
  receiver(absl::UnavailableError("too many requests"));
}

void DashboardData::Job(proto::JobStatus status, Receiver receiver) {
  Post(
      [this, status = std::move(status), receiver]() mutable {
        if (options_.complete) options_.complete(status);
        receiver(ServerSentEvent("job", StatusJson(status)));
      },
      receiver);
}

void DashboardData::News(std::shared_ptr<DashboardViewer> viewer, Receiver receiver) {
  Post([viewer = std::move(viewer), receiver] { receiver(viewer->News()); }, receiver);
}

void DashboardData::Part(std::shared_ptr<TraceDownload> download, Receiver receiver) {
  Post([download = std::move(download), receiver] { receiver(download->Next()); }, receiver);
}

void DashboardData::Stop() {
  {
    const absl::MutexLock lock(&mutex_);
    stopped_ = true;
    tasks_.clear();
  }
  if (thread_.joinable()) thread_.join();
}

void DashboardData::Run() {
  while (true) {
    std::function<void()> task;
    {
      const absl::MutexLock lock(&mutex_, absl::Condition(
                                              +[](DashboardData* self) ABSL_EXCLUSIVE_LOCKS_REQUIRED(self->mutex_) {
                                                return self->stopped_ || !self->tasks_.empty();
                                              },
                                              this));
      if (stopped_) return;
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    task();
  }
}

}  // namespace composer
