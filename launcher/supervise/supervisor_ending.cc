// How a generation, and the job, ends on this node: the workers are ended, the cause is told once, and what follows is
// decided and noted. What leads to an end is in supervisor.cc.
// SPDX-License-Identifier: Apache-2.0
#include <signal.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/clock.h"
#include "base/console.h"
#include "base/file.h"
#include "base/log.h"
#include "launcher/supervise/supervisor.h"
#include "launcher/workers/outside_fault.h"

namespace composer {
namespace {

constexpr absl::Duration kLeaveLimit = absl::Milliseconds(300);  // for workers that were told over the hub
constexpr absl::Duration kRoomPatience = absl::Seconds(60);
constexpr absl::Duration kRoomLook = absl::Seconds(1);

}  // namespace

// Every rank is to leave: those on the hub by its word, others by SIGTERM, all by SIGKILL in the end.
void Supervisor::BeginEnding(const std::string& cause) {
  state_ = State::kEnding;
  recorder_.OnFailure(absl::Now());
  ReportCause();
  logs_.Hush(absl::StrCat("leaving: the generation is over: ", cause));  // what each worker says then: the log has it
  parts_.hub.EndGeneration(cause);
  workers_.OnNews(Now());
  const bool patient = !options_.plan.job && !workers_.AllAttached();
  kill_at_ = std::min(kill_at_, Now() + (patient ? kSignalLimit : kLeaveLimit));
  workers_.Signal(SIGTERM, /*only_unattached=*/true);
}

// Tells the other nodes our first cause and what follows from it; again when a better one has come up.
void Supervisor::ReportCause() {
  bool certain = false;
  const int cause = FirstCause(workers_.exits(), &certain);
  if (!resize_reason_.empty() && !certain) return;
  if (cause < 0 || cause == reported_ || (remote_.has_value() && !(certain && remote_->collateral))) return;
  reported_ = cause;
  proto::FailureCause message = ToProto(Report(workers_.exits()[cause]), options_.node_id, certain, absl::Now());
  const Verdict verdict = DecideNextStep(Result(), budget_);
  if (certain && (verdict.next == NextStep::kRestart || verdict.next == NextStep::kGiveUp)) {
    *message.mutable_verdict() = ToProto(verdict);
  }
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

void Supervisor::Announce(const WorkerExit& cause) {
  announced_ = true;
  if (!stalled_by_.empty() && DecideNextStep(Result(), budget_).decision == stalled_by_) return;
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

// Nothing here says why, and another node may.
bool Supervisor::MayBeExplained() const {
  bool certain = false;
  return FirstCause(workers_.exits(), &certain) >= 0 && !certain && nodes_ > 1 && resize_reason_.empty() &&
         (!remote_.has_value() || remote_->collateral);
}

GenerationResult Supervisor::Result() const {
  const bool running = state_ != State::kJoining;
  return {.exits = running ? workers_.exits() : std::vector<WorkerExit>(),
          .remote = remote_,
          .resizing = resize_reason_,
          .stop_signal = stop_signal_,
          .checkpoints_on_stop = options_.plan.job,
          .may_shrink = nodes_ > options_.min_nodes,
          .killed = killed_,
          .world_size = running ? world_size_ : 0,
          .trained = !running || workers_.Trained(),
          .progress = running && recorder_.Advanced(workers_.Progress())};
}

void Supervisor::EndGeneration() {
  if (state_ == State::kRunning) recorder_.OnFailure(absl::Now());  // the last one to leave was the first to fail
  ReportCause();
  if (stop_signal_ == 0 && MayBeExplained() && Now() < explain_until_) {
    state_ = State::kEnding;
    if (explain_until_ == absl::InfiniteFuture()) explain_until_ = Now() + kExplainWait;
    return;
  }
  explain_until_ = absl::InfiniteFuture();
  const Verdict verdict = DecideNextStep(Result(), budget_);
  if (verdict.next == NextStep::kDone && nodes_ > 1 && !all_done_ && stop_signal_ == 0) {
    state_ = State::kDone;
    parts_.link.WorkersEnded();
    return barrier_.Arrive(generation_, nodes_, [this, generation = generation_](absl::Status status) {
      parts_.mailbox.Post(BarrierAnswer{generation, std::move(status)});
    });
  }
  Measure(Now());
  meter_.EndGeneration();
  recorder_.EndGeneration(workers_.Progress());
  if (verdict.first_cause >= 0 && !announced_) Announce(workers_.exits()[verdict.first_cause]);
  if (verdict.next != NextStep::kRestart) return Finish(verdict);
  Conclude(verdict);
  budget_.tally = verdict.tally;
  state_ = State::kJoining;
  kill_at_ = start_kill_at_ = spawner_at_ = absl::InfiniteFuture();
  parts_.spawner.Sweep();
  JoinAgain(verdict);
  logs_.Drain();
  SaveSummary();
}

// After the pause that the restarts before this one call for, and as long as there is no room where some is needed. Not for
// ever: what is left of the last save may be what fills the disk, and a start clears that away.
void Supervisor::JoinAgain(const Verdict& verdict) {
  const bool stalls = verdict.next == NextStep::kRestart && verdict.tally.stalls > 0;
  stalled_by_ = stalls ? verdict.decision : "";
  join_at_ = Now() + RestartDelay(verdict.tally);
  room_ = verdict.tally.stalls <= 1 ? "" : verdict.room == "." ? options_.plan.run_folder : verdict.room;
  room_until_ = Now() + kRoomPatience;
  if (join_at_ <= Now()) JoinWhenReady();
}

void Supervisor::JoinWhenReady() {
  if (state_ == State::kJoining && !room_.empty() && Now() < room_until_ && !HasRoom(room_)) {
    join_at_ = Now() + kRoomLook;
    return;
  }
  join_at_ = absl::InfiniteFuture();
  if (state_ == State::kJoining) parts_.link.Join(ToProto(budget_.tally));
}

// Says and notes, once, how a generation ended and what follows.
void Supervisor::Conclude(const Verdict& verdict) {
  const bool ended = state_ != State::kJoining;
  const std::vector<WorkerExit> exits = ended ? workers_.exits() : std::vector<WorkerExit>();
  const std::string collateral = verdict.next == NextStep::kDone ? "" : DescribeCollateral(exits, verdict.first_cause);
  const bool told = !stalled_by_.empty() && verdict.next == NextStep::kRestart && verdict.decision == stalled_by_;
  const absl::Duration delay = verdict.next == NextStep::kRestart ? RestartDelay(verdict.tally) : absl::ZeroDuration();
  LOG(INFO) << "generation " << generation_ << ": " << verdict.reason << "; " << verdict.decision
            << (collateral.empty() ? "" : "; ") << collateral;
  if (verdict.next != NextStep::kDone && !told) {
    const bool says_run = verdict.next == NextStep::kPreempted && options_.plan.job;  // DescribeRun does
    if (!announced_ && verdict.first_cause < 0 && !says_run) PrintToUser(verdict.reason);
    if (!collateral.empty() && verdict.exit_code != exit_code::kUserError) PrintToUser(collateral);
    const std::string pause =
        delay == absl::ZeroDuration() ? "" : absl::StrCat(", after a pause of ", absl::FormatDuration(delay));
    if (!verdict.decision.empty() && !told_by_worker_) PrintToUser(verdict.decision + pause);
  }
  recorder_.Conclude(verdict, exits, absl::Now());
}

void Supervisor::Finish(const Verdict& verdict) {
  logs_.Drain();
  Conclude(verdict);
  state_ = State::kFinished;
  exit_code_ = verdict.exit_code;
  SaveSummary();
  const bool nothing_ran = told_by_worker_ && recorder_.summary().steps() == 0;
  if (options_.plan.job && first_node_ && !nothing_ran) PrintToUser(DescribeRun(recorder_.summary()));
}

void Supervisor::SaveSummary() {
  if (!writes_summary_) return;
  // A launch that was refused, or failed, before it trained has nothing to say of the run that an earlier one has recorded.
  if (!recorder_.started() && PathExists(JoinPath(options_.plan.run_folder, "summary.json"))) return;
  const absl::Status status = WriteSummary(recorder_.summary());
  const bool told = !stalled_by_.empty() && IsOutsideFault(status);  // what stalls the job stalls its summary
  if (!status.ok() && !told) PrintToUser(status.message());
}

void Supervisor::Fail(int code, const std::string& reason) {
  PrintErrorToUser(reason);
  announced_ = true;
  Finish({.next = NextStep::kGiveUp, .exit_code = code, .first_cause = -1, .reason = reason});
}

}  // namespace composer
