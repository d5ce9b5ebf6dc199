// How the supervisor carries out the actions that tell, record and start something; those that answer with an event are
// in supervisor.cc.
// SPDX-License-Identifier: Apache-2.0

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/console.h"
#include "base/file.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "launcher/supervise/supervisor.h"
#include "launcher/workers/outside_fault.h"
#include "launcher/workers/placement.h"

namespace composer {

absl::Status Supervisor::StartWorkers(const proto::World& world) {
  ASSIGN_OR_RETURN(WorkerPlace place, PlaceOf(world, options_.plan.place));
  place.restart_count = state_.tally().restarts;
  place.launch = options_.plan.job ? recorder_.summary().launch() : 0;
  place.hub = parts_.hub.address();
  if (!options_.plan.job) place.master_port = world.master_port();  // scripts bind it themselves
  first_node_ = place.node_rank == 0;
  writes_summary_ = options_.plan.job && first_node_;
  told_by_worker_ = false;
  const int generation = static_cast<int>(world.generation());
  parts_.hub.BeginGeneration(world.generation());
  recorder_.BeginGeneration(generation, world.world_size(), state_.tally().restarts);
  LOG(INFO) << "generation " << generation << ": " << world.world_size() << " ranks, " << world.reason();
  return workers_.Start(place, generation);
}

void Supervisor::Do(const job_action::Print& print) {
  if (print.to == job_action::Print::To::kLog) {
    LOG(INFO) << print.text;
  } else if (print.to == job_action::Print::To::kError) {
    PrintErrorToUser(print.text);
  } else {
    PrintToUser(print.text);
  }
}

void Supervisor::Do(const job_action::Join& join) { parts_.link.Join(ToProto(state_.tally()), join.checkpointed); }
void Supervisor::Do(const job_action::Drain& drain) { parts_.hub.Drain(drain.reason); }
void Supervisor::Do(const job_action::MarkFailure&) { recorder_.OnFailure(absl::Now()); }
void Supervisor::Do(const job_action::AmendCause& amend) { recorder_.Amend(amend.cause); }
void Supervisor::Do(const job_action::Sweep&) { parts_.spawner.Sweep(); }

void Supervisor::Do(const job_action::EndWorkers& end) {
  logs_.Hush(absl::StrCat("leaving: the generation is over: ", end.cause));  // what each worker says then
  parts_.hub.EndGeneration(end.cause);
  workers_.OnNews(Now());
}

void Supervisor::Do(const job_action::ReportCause& report) {
  proto::FailureCause message =
      ToProto(Report(workers_.exits()[report.exit]), options_.node_id, report.certain, absl::Now());
  if (report.verdict.has_value()) *message.mutable_verdict() = ToProto(*report.verdict);
  parts_.link.ReportEnded(message);
}

FailureReport Supervisor::Report(const WorkerExit& exit) {
  FailureReport report = {.exit = exit, .node = options_.host, .last_word = exit.last_line};
  const Worker* found = workers_.FindRank(exit.rank);
  if (found == nullptr) return report;  // it could not be started
  const Worker& worker = *found;
  report.pid = worker.pid;
  report.last_word = worker.last_word;
  report.stderr_tail = logs_.StderrTail(exit.rank);
  if (BaseName(options_.plan.argv[0]) == "python3") report.python = options_.plan.argv[0];
  if (options_.plan.job)
    report.log_path = LogPath(options_.plan.run_folder, static_cast<int>(worker.place.generation), exit.rank);
  return report;
}

void Supervisor::Do(const job_action::Announce& announce) {
  const WorkerExit& cause = workers_.exits()[announce.exit];
  FailureReport report = Report(cause);
  // Every rank finds the same mistake of the user's, and says so: once is enough, and nothing else needs to be read.
  told_by_worker_ = cause.status.code == exit_code::kUserError && !report.last_word.empty() &&
                    logs_.WasShown(absl::StrCat("error: ", report.last_word));
  if (told_by_worker_) {
    report.last_word.clear();
    report.log_path.clear();
  }
  if (told_by_worker_ || logs_.ShowsStderr(cause.rank)) report.stderr_tail.clear();
  PrintErrorToUser(absl::StrCat(DescribeFailure(report), told_by_worker_ ? ": not retried" : ""));
}

void Supervisor::Do(const job_action::CloseGeneration&) {
  Measure(Now());
  meter_.EndGeneration();
  recorder_.EndGeneration(workers_.Progress());
}

void Supervisor::Do(const job_action::Conclude& conclude) {
  const Verdict& verdict = conclude.verdict;
  if (verdict.next != NextStep::kRestart) logs_.Drain();
  const std::vector<WorkerExit> exits = conclude.ran ? workers_.exits() : std::vector<WorkerExit>();
  const bool done = verdict.next == NextStep::kDone;
  const std::string collateral = done ? "" : DescribeCollateral(exits, verdict.first_cause);
  LOG(INFO) << "generation " << state_.generation() << ": " << verdict.reason << "; " << verdict.decision
            << (collateral.empty() ? "" : "; ") << collateral;
  if (!done && !conclude.repeated) {
    const bool says_run = verdict.next == NextStep::kPreempted && options_.plan.job;  // DescribeRun does
    if (!conclude.announced && verdict.first_cause < 0 && !says_run) PrintToUser(verdict.reason);
    if (!collateral.empty() && verdict.exit_code != exit_code::kUserError) PrintToUser(collateral);
    const bool restarts = verdict.next == NextStep::kRestart;
    const absl::Duration delay = restarts ? RestartDelay(verdict.tally) : absl::ZeroDuration();
    const std::string pause =
        delay == absl::ZeroDuration() ? "" : absl::StrCat(", after a pause of ", absl::FormatDuration(delay));
    if (!verdict.decision.empty() && !told_by_worker_) PrintToUser(verdict.decision + pause);
  }
  recorder_.Conclude(verdict, exits, absl::Now());
}

void Supervisor::Do(const job_action::SaveSummary&) {
  logs_.Drain();
  SaveSummary();
}

void Supervisor::Do(const job_action::Finish&) {
  SaveSummary();
  const bool nothing_ran = told_by_worker_ && recorder_.summary().steps() == 0;
  if (options_.plan.job && first_node_ && !nothing_ran) PrintToUser(DescribeRun(recorder_.summary()));
}

void Supervisor::SaveSummary() {
  if (!writes_summary_) return;
  // A launch that was refused, or failed, before it trained has nothing to say of the run that an earlier one recorded.
  if (!recorder_.started() && PathExists(JoinPath(options_.plan.run_folder, "summary.json"))) return;
  const absl::Status status = WriteSummary(recorder_.summary());
  const bool known = state_.stalled() && IsOutsideFault(status);  // what stalls the job stalls its summary
  if (!status.ok() && !known) PrintToUser(status.message());
}

}  // namespace composer
