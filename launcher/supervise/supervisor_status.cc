// The supervisor's answers to those who ask from outside (control_server.h), and what it measures for them.
// SPDX-License-Identifier: Apache-2.0
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/console.h"
#include "base/file.h"
#include "launcher/control/job_status.h"
#include "launcher/supervise/stop_request.h"
#include "launcher/supervise/supervisor.h"

namespace composer {
namespace {

// Returns what `composer status` shows of a worker. `page` is its progress page, as read now.
proto::RankStatus DescribeRank(const Worker& worker, const ProgressSnapshot& page, absl::Time now) {
  proto::RankStatus status;
  status.set_rank(worker.place.rank);
  status.set_local_rank(worker.place.local_rank);
  status.set_pid(worker.pid);
  // A program that does not attach reports no phase.
  status.set_phase(worker.gone       ? "gone"
                   : worker.attached ? PhaseName(page.phase)
                   : worker.pid != 0 ? "running"
                                     : "starting");
  status.set_step(page.batch);
  status.set_samples(page.samples);
  status.set_loss(page.batch > 0 ? page.loss : std::numeric_limits<double>::quiet_NaN());
  status.set_data_wait(page.data_wait);
  const absl::Time heard = worker.activity.activity().last_heartbeat;
  const bool silent = heard == absl::InfiniteFuture();
  status.set_heartbeat_age_seconds(silent ? -1 : std::max(0.0, absl::ToDoubleSeconds(now - heard)));
  status.set_starved(worker.gone ? "" : worker.starved);
  return status;
}

}  // namespace

void Supervisor::Handle(ControlRequest request) {
  const std::string who = absl::StrCat("asked by ", request.who);
  if (request.kind == ControlRequest::Kind::kSave && running()) {
    PrintToUser(absl::StrCat(who, ": the workers checkpoint and continue"));
    parts_.hub.Save(request.who);
  }
  if (request.kind == ControlRequest::Kind::kProfile && running()) {
    PrintToUser(absl::StrCat(who, ": the workers profile the next batches"));
    parts_.hub.Profile();
  }
  // Also of workers that are asked to leave and do not.
  if (request.kind == ControlRequest::Kind::kStacks && options_.plan.job && !workers_.AllGone()) {
    const std::string folder = JoinPath(options_.plan.run_folder, "logs");
    PrintToUser(absl::StrCat(who, ": the workers write their stacks to ", folder));
    parts_.hub.WriteStacks(folder);
  }
  if (request.kind == ControlRequest::Kind::kDrain) Apply(job_event::StopAsked{kNoticeSignal, who});
  if (request.kind == ControlRequest::Kind::kStop) Apply(job_event::KillAsked{who});
  request.answer.Give(Describe());
}

void Supervisor::Handle(const LookRequest&) {
  const proto::JobStatus own = Describe();
  proto::NodeReport report;
  report.set_state(own.state());
  report.set_generation(own.generation());
  report.set_restarts(own.restarts());
  report.set_last_cause(own.last_cause());
  *report.mutable_ranks() = own.ranks();
  parts_.link.Report(report);
}

proto::JobStatus Supervisor::Describe() const {
  static constexpr const char* kStates[] = {"joining", "running", "ending", "done", "finished"};
  const absl::Time now = RealClock::Get().Now();
  const RunSummary& summary = recorder_.summary();
  proto::JobStatus status;
  status.set_job(options_.plan.place.job);
  status.set_run_name(options_.plan.place.run_name);
  status.set_run_folder(options_.plan.run_folder);
  status.set_host(options_.host);
  status.set_pid(getpid());
  status.set_version(COMPOSER_VERSION);
  status.set_state(kStates[static_cast<int>(state_.phase())]);
  status.set_generation(state_.generation());
  status.set_attempt(static_cast<int>(summary.generations.size()));
  status.set_restarts(summary.restarts);
  status.set_max_restarts(options_.plan.place.max_restarts);
  status.set_last_checkpoint(summary.last_checkpoint);
  status.set_last_checkpoint_step(summary.last_checkpoint_step);
  status.set_wall_seconds(absl::ToDoubleSeconds(now - options_.launched));
  status.set_steps_per_second(meter_.StepsPerSecond(now));
  status.set_goodput(meter_.Goodput(now));
  for (const GenerationSummary& g : summary.generations) {
    if (!g.cause.empty()) status.set_last_cause(g.cause);
  }
  status.set_step(summary.steps());
  status.set_samples(summary.samples());
  if (options_.plan.job) {
    status.set_launch(summary.launch());
    status.set_total_restarts(summary.AllLaunches().restarts);
  }
  for (const Worker& worker : workers_.workers()) {
    *status.add_ranks() = DescribeRank(worker, worker.page.Read(), now);
    status.set_world_size(worker.place.world_size);
    status.set_nodes(worker.place.nodes);
    status.set_node_rank(worker.place.node_rank);
  }
  if (!running()) return status;
  status.set_step(0);  // of the ranks: after a restart the run may be behind its furthest step
  for (const proto::RankStatus& rank : status.ranks()) {
    status.set_step(std::max(status.step(), rank.step()));
    status.set_samples(std::max(status.samples(), rank.samples()));
  }
  return status;
}

void Supervisor::Measure(absl::Time now) {
  int64_t step = 0;
  bool training = false;
  for (const ProgressSnapshot& page : workers_.Progress()) {
    step = std::max(step, page.batch);
    training = training || page.phase == proto::PHASE_TRAINING;
  }
  meter_.Observe(step, training, now);
}

}  // namespace composer
