// Turns what the supervisor sees into the run's summary. The caller passes all times; no clock is read.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "absl/time/time.h"
#include "contract/progress_page.h"
#include "launcher/supervise/restart_policy.h"
#include "launcher/supervise/run_summary.h"
#include "proto/worker.pb.h"

namespace composer {

class RunRecorder {
 public:
  // `launched` is wall time; the first generation's time to its first step counts from there.
  RunRecorder(std::string run_name, std::string run_folder, absl::Time launched, RunHistory history = {});

  // `number` and `restarts` are the job's, because a launcher that joined late has not seen all of them.
  void BeginGeneration(int number, int world_size, int restarts);
  // Returns whether this is the first report of where the generation starts, which means that the run is under way.
  bool OnReport(const proto::WorkerMessage& message);
  // Records a failure that ends the generation; the next one's time to its first step counts from `when`.
  void OnFailure(absl::Time when) { failed_at_ = when; }
  // Records that the workers are gone; `pages` are theirs. Returns whether they got further than all generations
  // before.
  bool EndGeneration(const std::vector<ProgressSnapshot>& pages);
  // Answers the same question while the workers may still run.
  bool Advanced(const std::vector<ProgressSnapshot>& pages) const;
  // Records how the run goes on and, if a generation has ended, why.
  void Conclude(const Verdict& verdict, const std::vector<WorkerExit>& exits, absl::Time now);
  // Replaces the cause of the generation that ended last.
  void Amend(const std::string& cause);

  const RunSummary& summary() const { return summary_; }
  // Returns whether training has begun in this launch.
  bool started() const { return started_; }

 private:
  const absl::Time launched_;
  absl::Time failed_at_;         // the last failure, or the launch if there was none
  absl::Time counted_from_;      // failed_at_ when the current generation began
  int64_t furthest_common_ = 0;  // step that all ranks had done in an earlier generation
  int64_t furthest_ = 0;         // step reached by earlier generations
  bool started_ = false;
  RunSummary summary_;
};

}  // namespace composer
