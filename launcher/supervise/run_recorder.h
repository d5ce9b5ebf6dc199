// Turns what the supervisor sees into the run's summary. Times are given, none is read.
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
  // `launched`: wall time; the first generation's first step counts from there.
  RunRecorder(std::string run_name, std::string run_folder, absl::Time launched, RunHistory history = {});

  // `number` and `restarts` are the job's: a launcher that came late has not seen all of them.
  void BeginGeneration(int number, int world_size, int restarts);
  // Whether it says first where the generation starts: the run is now under way.
  bool OnReport(const proto::WorkerMessage& message);
  // A failure ends the generation; the next one's first step counts from `when`.
  void OnFailure(absl::Time when) { failed_at_ = when; }
  // The workers are gone; `pages` are theirs. Returns whether they came further than all generations before.
  bool EndGeneration(const std::vector<ProgressSnapshot>& pages);
  // The same question while they may still run.
  bool Advanced(const std::vector<ProgressSnapshot>& pages) const;
  // How it goes on. Of a generation that ended, also why.
  void Conclude(const Verdict& verdict, const std::vector<WorkerExit>& exits, absl::Time now);
  // The cause of the generation that ended last turned out to be another.
  void Amend(const std::string& cause);

  const RunSummary& summary() const { return summary_; }
  // Has training begun in this launch?
  bool started() const { return started_; }

 private:
  const absl::Time launched_;
  absl::Time failed_at_;         // the last failure, the launch before any
  absl::Time counted_from_;      // failed_at_ as of the current generation's begin
  int64_t furthest_common_ = 0;  // step that all ranks had done in an earlier generation
  int64_t furthest_ = 0;         // step reached by earlier generations
  bool started_ = false;
  RunSummary summary_;
};

}  // namespace composer
