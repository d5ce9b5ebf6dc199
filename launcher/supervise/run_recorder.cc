// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/run_recorder.h"

#include <algorithm>
#include <utility>

namespace composer {
namespace {

const char* ExitReason(const Verdict& verdict) {
  switch (verdict.next) {
    case NextStep::kDone:
      return "done";
    case NextStep::kPreempted:
      return "preempted";
    case NextStep::kRestart:
      return "running";
    case NextStep::kGiveUp:
      break;
  }
  if (verdict.exit_code == exit_code::kUserError) return "user_error";
  if (verdict.exit_code == exit_code::kBudgetSpent) return "budget_spent";
  return verdict.stopped ? "killed" : "failed";
}

// Returns the step that every rank has done; some ranks may be one ahead.
int64_t CommonStep(const std::vector<ProgressSnapshot>& pages) {
  int64_t step = pages.empty() ? 0 : pages.front().batch;
  for (const ProgressSnapshot& page : pages) step = std::min(step, page.batch);
  return step;
}

const char* GenerationEnd(NextStep next) {
  if (next == NextStep::kDone) return "done";
  return next == NextStep::kPreempted ? "preempted" : "failed";
}

}  // namespace

RunRecorder::RunRecorder(std::string run_name, std::string run_folder, absl::Time launched, RunHistory history)
    : launched_(launched), failed_at_(launched), counted_from_(launched) {
  summary_.run_name = std::move(run_name);
  summary_.run_folder = std::move(run_folder);
  summary_.started = absl::ToUnixSeconds(launched);
  summary_.history = std::move(history);
}

void RunRecorder::BeginGeneration(int number, int world_size, int restarts) {
  counted_from_ = failed_at_;
  GenerationSummary generation;
  generation.generation = number;
  generation.ended = "running";
  summary_.generations.push_back(generation);
  summary_.restarts = restarts;
  summary_.world_size = world_size;
}

bool RunRecorder::OnReport(const proto::WorkerMessage& message) {
  if (summary_.generations.empty()) return false;
  GenerationSummary& current = summary_.generations.back();
  if (message.has_started()) {  // every rank reports the same
    const bool first = !std::exchange(current.loaded, true);
    started_ = true;
    current.start_checkpoint = message.started().checkpoint();
    current.start_step = current.end_step = message.started().batch();
    current.start_samples = current.end_samples = message.started().samples();
    if (summary_.last_checkpoint.empty() && !current.start_checkpoint.empty()) {
      summary_.last_checkpoint = current.start_checkpoint;
      summary_.last_checkpoint_step = current.start_step;
    }
    return first;
  }
  if (message.has_checkpoint_saved()) {
    summary_.last_checkpoint = message.checkpoint_saved().path();
    summary_.last_checkpoint_step = message.checkpoint_saved().batch();
  } else if (message.has_exit_report() && !message.exit_report().metrics().empty()) {
    summary_.metrics = {message.exit_report().metrics().begin(), message.exit_report().metrics().end()};
  }
  return false;
}

bool RunRecorder::Advanced(const std::vector<ProgressSnapshot>& pages) const {
  if (summary_.generations.empty()) return false;
  return CommonStep(pages) > std::max(furthest_common_, summary_.generations.back().start_step);
}

bool RunRecorder::EndGeneration(const std::vector<ProgressSnapshot>& pages) {
  GenerationSummary& current = summary_.generations.back();
  int64_t first_step_micros = 0;
  for (const ProgressSnapshot& page : pages) {
    current.end_step = std::max(current.end_step, page.batch);
    current.end_samples = std::max(current.end_samples, page.samples);
    const int64_t micros = page.first_step_unix_micros;
    if (micros != 0 && (first_step_micros == 0 || micros < first_step_micros)) first_step_micros = micros;
  }
  if (first_step_micros != 0) {
    current.first_step_seconds = absl::ToDoubleSeconds(absl::FromUnixMicros(first_step_micros) - counted_from_);
  }
  current.recomputed_steps = std::max<int64_t>(0, std::min(furthest_, current.end_step) - current.start_step);
  const bool progress = Advanced(pages);
  furthest_common_ = std::max(furthest_common_, CommonStep(pages));
  furthest_ = std::max(furthest_, current.end_step);
  return progress;
}

void RunRecorder::Conclude(const Verdict& verdict, const std::vector<WorkerExit>& exits, absl::Time now) {
  summary_.exit_reason = ExitReason(verdict);
  summary_.exit_code = verdict.exit_code;
  // The last world may have ended before this node began it.
  if (verdict.next == NextStep::kGiveUp) summary_.restarts = std::max(summary_.restarts, verdict.tally.restarts);
  summary_.wall_seconds = absl::ToDoubleSeconds(now - launched_);
  if (summary_.generations.empty() || summary_.generations.back().ended != "running") return;
  GenerationSummary& ended = summary_.generations.back();
  ended.ended = GenerationEnd(verdict.next);
  if (verdict.next != NextStep::kDone) ended.cause = verdict.reason;
  ended.decision = verdict.decision;
  for (int i = 0; i < static_cast<int>(exits.size()); ++i) {
    const WorkerExit& exit = exits[i];
    ended.exits.push_back({exit.rank, HowItEnded(exit), RoleOf(exits, i, verdict.first_cause)});
  }
}

void RunRecorder::Amend(const std::string& cause) {
  if (!summary_.generations.empty()) summary_.generations.back().cause = cause;
}

}  // namespace composer
