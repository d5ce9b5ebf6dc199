// SPDX-License-Identifier: Apache-2.0
#include "launcher/workers/worker_group.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/clock.h"
#include "base/console.h"
#include "base/file.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "launcher/process/process_tree.h"
#include "launcher/workers/argument_expansion.h"
#include "launcher/workers/node_resources.h"
#include "launcher/workers/outside_fault.h"
#include "proto/worker.pb.h"

namespace composer {
namespace {

// A worker that fails this long after it was told to leave fails because of that.
constexpr absl::Duration kNewsDelay = absl::Milliseconds(100);
// So much of the time without a heartbeat passes before and between looks at a worker's wait for a processor.
constexpr int kLooksPerLimit = 8;
constexpr absl::Duration kStarvedAgain = absl::Minutes(1);  // at the earliest it is reported again

// Returns what the kernel shows of a hung worker; "" if that says nothing.
std::string DescribeState(pid_t pid) {
  switch (ProcessState(pid)) {
    case 'T':
    case 't':
      return "; its process is stopped (SIGSTOP or a debugger)";
    case 'D':
      return "; its process is in an uninterruptible wait (disk, network file system or driver)";
    case 'Z':
      return "; its process has ended but for a thread or a helper that holds it";
    default:
      break;
  }
  const std::string where = WaitChannel(pid);
  if (where.empty()) return "";
  return where == "0" ? "; its main thread computes" : absl::StrCat("; its main thread waits in the kernel's ", where);
}

StartupPhase StartupPhaseOf(const Worker& worker, const ProgressSnapshot& page, bool job) {
  if (worker.pid == 0) return StartupPhase::kSpawn;
  if (page.first_step_unix_micros != 0 || (!job && !worker.attached)) return StartupPhase::kOver;
  if (page.heartbeat + worker.heartbeats == 0) return StartupPhase::kAttach;
  switch (page.phase) {
    case proto::PHASE_STARTING:
    case proto::PHASE_CONNECTING:
      return StartupPhase::kGroup;
    case proto::PHASE_BUILDING:
      return StartupPhase::kBuild;
    case proto::PHASE_LOADING:
      return StartupPhase::kLoad;
    case proto::PHASE_TRAINING:
      return StartupPhase::kFirstStep;
    default:  // an evaluation before the first step, or no step is left to do
      return StartupPhase::kOver;
  }
}

// Looking costs some hundred small reads, so a start that takes a second must never pay for it.
absl::Duration LookInterval(const StartupLimits& limits) {
  return std::clamp(limits.attach / 4, absl::Milliseconds(250), absl::Seconds(5));
}

// Returns since when what a worker is judged by has been absent; InfiniteFuture if it is judged by nothing.
absl::Time SilentSince(const Worker& worker) {
  const WorkerActivity& activity = worker.activity.activity();
  const StartupActivity& startup = worker.startup.activity();
  return std::min({activity.last_heartbeat, activity.training ? activity.last_step : absl::InfiniteFuture(),
                   startup.phase == StartupPhase::kOver ? absl::InfiniteFuture() : startup.last_progress});
}

}  // namespace

std::string LogPath(const std::string& run_folder, int attempt, int rank) {
  return absl::StrFormat("%s/logs/gen-%03d/rank-%05d.log", run_folder, attempt, rank);
}

WorkerGroup::WorkerGroup(WorkerPlan plan, Spawner& spawner, RankLogs& logs)
    : plan_(std::move(plan)), spawner_(spawner), logs_(logs) {}

absl::Status WorkerGroup::Start(const WorkerPlace& first, int attempt) {
  for (const Worker& worker : workers_) RemoveFile(worker.place.progress_page).IgnoreError();
  first_rank_ = first.rank;
  workers_.clear();
  exits_.clear();
  told_at_ = absl::InfiniteFuture();
  oom_watch_.Begin();
  gpu_watch_.Begin();
  const bool keep_logs = !plan_.run_folder.empty();
  if (keep_logs) RETURN_IF_ERROR(MakeDirs(DirName(LogPath(plan_.run_folder, attempt, 0))));
  for (int local_rank = 0; local_rank < first.local_world_size; ++local_rank) {
    WorkerPlace place = first;
    place.local_rank = local_rank;
    place.rank = first.rank + local_rank;
    if (PlanOutput(plan_.output, place).err.show != RankLogs::Show::kRaw) place.terminal_columns = 0;
    place.progress_page = absl::StrCat(plan_.temp_folder, "/progress-", attempt, "-", local_rank);
    RETURN_IF_ERROR(StartOne(place, keep_logs ? LogPath(plan_.run_folder, attempt, place.rank) : ""));
  }
  return absl::OkStatus();
}

absl::Status WorkerGroup::StartOne(const WorkerPlace& place, const std::string& log_path) {
  ASSIGN_OR_RETURN(ProgressPage page, ProgressPage::Create(place.progress_page));
  const RankOutput output = PlanOutput(plan_.output, place);
  for (const std::string& path : {output.out.path, output.err.path}) {
    if (!path.empty()) RETURN_IF_ERROR(MakeDirs(DirName(AbsolutePath(path))));
  }
  int out[2], err[2];
  if (pipe2(out, O_CLOEXEC) != 0) return ErrnoStatus(errno, "make", "a pipe");
  if (pipe2(err, O_CLOEXEC) != 0) {
    close(out[0]);
    close(out[1]);
    return ErrnoStatus(errno, "make", "a pipe");
  }
  const absl::Cleanup close_write_ends = [&] {
    close(out[1]);
    close(err[1]);
  };
  RETURN_IF_ERROR(logs_.Add({.rank = place.rank,
                             .stdout_fd = out[0],
                             .stderr_fd = err[0],
                             .log_path = log_path,
                             .show = output.out.show,
                             .stderr_show = output.err.show,
                             .stdout_path = output.out.path,
                             .stderr_path = output.err.path}));
  workers_.push_back({.place = place,
                      .page = std::move(page),
                      .activity = ActivityTracker(place.rank),
                      .startup = StartupTracker(place.rank, RealClock::Get().Now()),
                      .look_at = absl::InfinitePast()});
  const Environment environment = WorkerEnvironment(plan_.environment, place);
  const ProcessSpec spec = {.argv = ArgumentsOf(environment),
                            .environment = environment.ToStrings(),
                            .cpus = CpuShare(plan_.cpus, std::max(place.cpu_sharers, place.local_world_size),
                                             plan_.first_cpu_share + place.local_rank),
                            .blocks_signals = plan_.blocks_signals};
  return spawner_.Spawn(place.local_rank, spec, out[1], err[1]);
}

std::vector<std::string> WorkerGroup::ArgumentsOf(const Environment& environment) const {
  std::vector<std::string> argv = plan_.argv;
  if (plan_.first_argument == 0) return argv;
  for (size_t i = plan_.first_argument; i < argv.size(); ++i) argv[i] = ExpandArgument(argv[i], environment);
  return argv;
}

void WorkerGroup::OnStarted(int local_rank, pid_t pid) {
  Worker& worker = workers_.at(local_rank);
  worker.pid = pid;
  if (worker.signal_on_start != 0) spawner_.Kill(pid, worker.signal_on_start);
}

void WorkerGroup::OnSpawnFailed(int local_rank, const absl::Status& failure) {
  LOG(ERROR) << failure.message();
  workers_.at(local_rank).last_word = std::string(failure.message());
  OnExited(local_rank, {.code = IsOutsideFault(failure) ? exit_code::kFailure : exit_code::kUserError});
}

void WorkerGroup::OnStartFailed(const absl::Status& failure) {
  exits_.push_back({.rank = first_rank_ + static_cast<int>(workers_.size()), .status = {.code = exit_code::kFailure}});
  exits_.back().last_line = std::string(failure.message());
  Signal(SIGKILL);
}

void WorkerGroup::OnExited(int local_rank, ExitStatus status) {
  Worker& worker = workers_.at(local_rank);
  worker.gone = true;
  WorkerExit exit = {.rank = worker.place.rank, .status = status, .ended_by_us = worker.signalled, .hang = worker.hang};
  exit.after_news = RealClock::Get().Now() > told_at_ + kNewsDelay;
  if (!status.ok()) exit.error = worker.error;
  if (!status.ok() && !worker.signalled) {
    exit.kill = KilledBy(worker, status);
    exit.last_line = worker.last_word;
    const std::vector<std::string> tail =
        exit.last_line.empty() ? logs_.StderrTail(exit.rank) : std::vector<std::string>();
    if (!tail.empty()) exit.last_line = tail.back();
  }
  exits_.push_back(std::move(exit));
}

void WorkerGroup::OnSpawnerGone(const std::string& how) {
  bool explained = FirstCause(exits_, nullptr) >= 0;
  for (Worker& worker : workers_) {
    if (worker.gone) continue;
    worker.gone = true;
    const bool cause = !std::exchange(explained, true) && !worker.signalled;
    exits_.push_back({.rank = worker.place.rank, .status = {.signal = SIGKILL}, .ended_by_us = !cause});
    if (cause) exits_.back().lost = how;
  }
}

std::string WorkerGroup::KilledBy(const Worker& worker, ExitStatus status) {
  std::vector<pid_t> pids;
  for (const Worker& w : workers_) pids.push_back(w.pid);
  KillEvidence evidence = oom_watch_.Look(worker.pid, pids);
  evidence.status = status;
  evidence.resident_bytes = worker.resident_bytes;
  std::string reason = JudgeKill(evidence).reason;
  const bool by_choice = status.code == exit_code::kUserError || status.code == exit_code::kPreempted;
  const std::string gpu = by_choice ? "" : GpuOf(worker);
  return reason.empty() || gpu.empty() ? absl::StrCat(reason, gpu) : absl::StrCat(reason, "; ", gpu);
}

// Ranks have GPUs in the order of local ranks; a program that chooses otherwise gets another GPU's news.
std::string WorkerGroup::GpuOf(const Worker& worker) {
  return gpu_watch_.Look(worker.place.local_rank, plan_.environment.GetOr("CUDA_VISIBLE_DEVICES", ""));
}

void WorkerGroup::OnReport(int rank, const proto::WorkerMessage& message) {
  Worker* worker = FindRank(rank);
  if (worker == nullptr) return;
  if (message.has_hello()) worker->attached = true;
  if (message.has_progress()) {
    ++worker->heartbeats;
    worker->resident_bytes = message.progress().resident_bytes();
  }
  if (!message.has_exit_report()) return;
  const proto::ExitReport& report = message.exit_report();
  worker->last_word = report.message();
  if (report.code() != 0) worker->error = ReportedError(report.batch(), report.message());
}

void WorkerGroup::Signal(int signal, bool only_unattached) {
  for (Worker& worker : workers_) {
    if (!worker.gone && !(only_unattached && worker.attached)) SignalOne(worker, signal);
  }
}

void WorkerGroup::SignalOne(Worker& worker, int signal) {
  worker.signalled = true;
  if (worker.pid == 0) {
    worker.signal_on_start = signal;
  } else {
    spawner_.Kill(worker.pid, signal);
  }
}

bool WorkerGroup::KillHung(absl::Time now, const HangLimits& limits) {
  std::vector<WorkerActivity> running;
  std::vector<StartupActivity> starting;
  for (Worker& worker : workers_) {
    if (worker.gone) continue;
    const ProgressSnapshot seen = worker.page.Read();
    const bool training = seen.phase == proto::PHASE_TRAINING && seen.first_step_unix_micros != 0;
    worker.activity.Observe({training, seen.batch, seen.heartbeat + worker.heartbeats}, now);
    ObserveStartup(worker, seen, now, LookInterval(limits.startup));
    ObserveWait(worker, now, limits.no_heartbeat / kLooksPerLimit);
    TellStarved(worker, now, limits);
    running.push_back(worker.activity.activity());
    starting.push_back(worker.startup.activity());
  }
  std::optional<Hang> hang = FindHang(running, now, limits);
  if (!hang.has_value()) hang = FindStuckStart(starting, now, limits.startup, limits.no_heartbeat);
  if (!hang.has_value()) return false;
  Worker* worker = FindRank(hang->rank);
  if (worker == nullptr || !worker->hang.empty()) return false;
  worker->hang = absl::StrCat(hang->reason, DescribeState(worker->pid));
  SignalOne(*worker, SIGKILL);
  return true;
}

void WorkerGroup::ObserveStartup(Worker& worker, const ProgressSnapshot& page, absl::Time now,
                                 absl::Duration interval) {
  const StartupPhase phase = StartupPhaseOf(worker, page, plan_.job);
  std::optional<ProcessWork> work;
  if (phase != StartupPhase::kOver && worker.pid != 0 && now >= worker.look_at) {
    if (worker.look_at != absl::InfinitePast()) work = WorkOf(worker.pid);
    worker.look_at = now + interval;
  }
  worker.startup.Observe(phase, work, now);
}

void WorkerGroup::ObserveWait(Worker& worker, absl::Time now, absl::Duration interval) {
  if (worker.pid == 0 || now - SilentSince(worker) < interval) return worker.threads.clear();
  if (!worker.threads.empty() && now - worker.threads_at < interval) return;
  const ThreadTimesById before = std::exchange(worker.threads, ReadThreadTimes(worker.pid));
  const absl::Duration waited = LongestWait(before, worker.threads, now - std::exchange(worker.threads_at, now));
  worker.activity.AddWait(waited, now);
  worker.startup.AddWait(waited, now);
}

void WorkerGroup::TellStarved(Worker& worker, absl::Time now, const HangLimits& limits) {
  worker.starved = DescribeStarved(worker.activity.activity(), now, limits);
  if (worker.starved.empty()) worker.starved = DescribeStarved(worker.startup.activity(), now, limits.startup);
  if (worker.starved.empty() || now - worker.starved_told < kStarvedAgain) return;
  worker.starved_told = now;
  PrintToUser(worker.starved);
}

void WorkerGroup::ForgiveSilence(absl::Time now) {
  for (Worker& worker : workers_) {
    worker.activity.Restart(now);
    worker.startup.Restart(now);
  }
}

bool WorkerGroup::AllStarted() const {
  return std::all_of(workers_.begin(), workers_.end(), [this](const Worker& w) {
    return w.gone || StartupPhaseOf(w, w.page.Read(), plan_.job) == StartupPhase::kOver;
  });
}

bool WorkerGroup::AllGone() const {
  return std::all_of(workers_.begin(), workers_.end(), [](const Worker& w) { return w.gone; });
}

bool WorkerGroup::AllAttached() const {
  return !workers_.empty() && std::all_of(workers_.begin(), workers_.end(), [](const Worker& w) { return w.attached; });
}

std::vector<ProgressSnapshot> WorkerGroup::Progress() const {
  std::vector<ProgressSnapshot> result;
  for (const Worker& worker : workers_) result.push_back(worker.page.Read());
  return result;
}

bool WorkerGroup::Trained() const {
  return !plan_.job || std::any_of(workers_.begin(), workers_.end(), [](const Worker& w) {
    const ProgressSnapshot page = w.page.Read();
    return page.phase >= proto::PHASE_TRAINING || page.first_step_unix_micros != 0;
  });
}

Worker* WorkerGroup::FindRank(int rank) {
  const auto it =
      std::find_if(workers_.begin(), workers_.end(), [rank](const Worker& w) { return w.place.rank == rank; });
  return it == workers_.end() ? nullptr : &*it;
}

}  // namespace composer
