// SPDX-License-Identifier: Apache-2.0
#include "trainer/loggers/tracker_logger.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace composer {

absl::Status TrackerLogger::Start(const RunStart& start) { return tracker_->Load(start.resumed); }

absl::Status TrackerLogger::Write(const MetricRecord& record) {
  if (thread_ == nullptr && tracker_ != nullptr) Run();
  thread_->Wake();
  return absl::OkStatus();
}

absl::Status TrackerLogger::WriteHyperparameters(const Hyperparameters& hyperparameters) {
  if (thread_ != nullptr) {
    thread_->AddParameters(hyperparameters);
  } else {
    tracker_->AddParameters(hyperparameters);
  }
  return absl::OkStatus();
}

void TrackerLogger::Run() {
  thread_ = std::make_unique<TrackerThread>(std::move(tracker_), given_up_, options_.interval,
                                            absl::StrCat("`composer sync ", options_.run_folder, "` sends the rest"));
}

absl::Status TrackerLogger::Close() {
  if (thread_ == nullptr) return absl::OkStatus();  // nothing was recorded
  const bool in_haste = options_.in_haste && options_.in_haste();
  return thread_->Finish(in_haste ? "preempted" : "done",
                         in_haste ? options_.hasty_flush_timeout : options_.flush_timeout);
}

}  // namespace composer
