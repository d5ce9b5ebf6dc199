// SPDX-License-Identifier: Apache-2.0
#include "launcher/launch.h"

#include <grpc/grpc.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/console.h"
#include "base/file.h"
#include "base/machine_stats.h"
#include "base/option_help.h"
#include "base/random.h"
#include "base/status_macros.h"
#include "launcher/control/control_plane.h"
#include "launcher/control/job_roster.h"
#include "launcher/doctor/env_report.h"
#include "launcher/launch_context.h"
#include "launcher/launch_parts.h"
#include "launcher/peer_memory/peer_memory.h"
#include "launcher/platform/slurm_requeue.h"
#include "launcher/rendezvous/connect.h"
#include "launcher/rendezvous/socket_interface.h"
#include "launcher/supervise/restart_policy.h"
#include "launcher/supervise/supervisor.h"
#include "launcher/workers/outside_fault.h"

namespace composer {
namespace {

// The time for the other nodes to hear how the job ended, before the rendezvous ends with this launcher. It is longer
// than it takes to notice that one is lost, or to upload a last checkpoint; a second signal ends it.
constexpr absl::Duration kOthersPatience = absl::Seconds(20);
constexpr absl::Duration kRosterPatience = absl::Seconds(1);
// How long the end of the launcher waits for a blocked terminal, or a reader such as less.
constexpr absl::Duration kFlushLogged = absl::Seconds(5);     // the run folder has all output
constexpr absl::Duration kFlushUnlogged = absl::Seconds(60);  // the output would be lost

// Blocks the signals that stop a job and returns a signalfd for them. Must run before any thread starts, so that
// threads inherit the mask.
int TakeStopSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2}) {
    struct sigaction action = {};
    const bool ignored = sigaction(number, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
    if (!ignored) sigaddset(&signals, number);  // nohup ignores SIGHUP, but a signalfd would still receive it
  }
  sigprocmask(SIG_BLOCK, &signals, nullptr);
  return signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
}

absl::Status CheckCards(const LaunchContext& context) {
  const LaunchShape& shape = context.plan.shape;
  if (shape.one_node()) return absl::OkStatus();
  const std::string number = shape.node_rank < 0 ? "this node" : absl::StrCat("node ", shape.node_rank);
  return CheckSocketInterfaces(context.environment, absl::StrCat(number, " (", HostName(), ")"), shape.endpoints[0],
                               context.endpoint_is_here);
}

// Connects the parts and runs the job. Mailbox, link, peer memory and hub are never destroyed, because one of their
// threads may still wait for a rendezvous that is gone, and the process is about to _exit.
absl::StatusOr<int> Supervise(LaunchContext& context, Console& console) {
  if (!context.plan.shape.one_node()) {
    auto life = Liveness::Show(context.node_address.address, RandomHex(8));
    if (life.ok()) context.life = *std::move(life);  // otherwise a broken connection means a lost node
  }
  ASSIGN_OR_RETURN(const RendezvousClient::Options client, ClientOptions(context));
  Supervisor::Options options = SupervisorOptions(context, client.node);
  auto& mailbox = *new Mailbox<SupervisorEvent>();
  const absl::Duration limit = absl::Seconds(context.options.join_timeout);
  RendezvousLink::Handlers handlers = {.on_world = [&](auto world) { mailbox.Post(std::move(world)); },
                                       .on_generation_over = [&](const auto& over) { mailbox.Post(over); }};
  handlers.on_resize = [&](const auto& resize) { mailbox.Post(resize); };
  handlers.on_look = [&] { mailbox.Post(LookRequest{}); };
  handlers.on_spare = [](const auto& spare) { PrintToUser(absl::StrCat("waiting as a spare: ", spare.reason())); };
  if (NumServers(context.plan.shape) > 1) handlers.on_serve = [&] { mailbox.Post(ServeRequest{}); };
  const ConnectOptions meeting = {context.rendezvous, limit, PlacesOf(context), context.stop_signals};
  ASSIGN_OR_RETURN(auto link, ConnectToRendezvous(meeting, client, handlers));
  ASSIGN_OR_RETURN(auto memory, StartPeerMemory(context, client.credentials, options.plan.environment));
  WorkerHub::Options hub_options = {.socket_path = context.resources.temp_folder + "/hub",
                                    .job = context.plan.name,
                                    .upstream = link->upstream(),
                                    .handler = [&](WorkerHub::Report report) { mailbox.Post(std::move(report)); }};
  if (memory != nullptr) hub_options.more_services = {memory.release()->relay()};
  ASSIGN_OR_RETURN(auto hub, WorkerHub::Start(std::move(hub_options)));
  RendezvousLink& lasting_link = *link.release();
  std::function<void(proto::JobStatus&)> complete;
  if (!context.plan.shape.one_node()) {
    complete = [&lasting_link](proto::JobStatus& status) {
      AddMembers(status, [&](int first, int count, bool look) {
        return lasting_link.Roster(first, count, look, kRosterPatience);
      });
    };
  }
  ASSIGN_OR_RETURN(const auto control_plane,
                   ControlPlane::Start({.flags = context.options.control_plane,
                                        .job = context.plan.name,
                                        .run_folder = options.plan.run_folder,
                                        .temp_folder = context.resources.temp_folder,
                                        .credentials = client.credentials,
                                        .handler = [&](ControlRequest request) { mailbox.Post(std::move(request)); },
                                        .complete = complete},
                                       context.environment));
  Supervisor supervisor(std::move(options), {*context.resources.spawner, lasting_link, *hub.release(), mailbox,
                                             context.stop_signals, console});
  const auto watch = StartPreemptionWatch(context.platform, [&](const Notice& notice) { mailbox.Post(notice); });
  const int code = supervisor.Run();
  mailbox.Close();  // open requests get the answer that the launcher is ending
  lasting_link.Leave("the launcher ends", /*done=*/code == exit_code::kDone);
  const bool others_need_us = !context.plan.shape.one_node() && (context.serves || lasting_link.serves());
  if (others_need_us) lasting_link.AwaitOthers(kOthersPatience, context.stop_signals);
  context.first_node = supervisor.first_node();
  if (watch != nullptr && code == exit_code::kPreempted) watch->Acknowledge();
  // A launcher that found no majority does not forget, because the job may go on elsewhere.
  NodeMemory* const remembered = context.memory.release();  // the link may still write it
  if (remembered != nullptr && code != exit_code::kUnavailable) remembered->Forget();
  return code;
}

// Waits, after one message, for faults that an operator can fix: a full disk, or an existing run folder that has become
// unwritable. Returns kCancelled after a signal, which stays unread.
absl::StatusOr<LaunchResources> MakeLaunchResourcesWhenThereIsRoom(const LaunchContext& context, int settle_seconds) {
  for (bool told = false;; told = true) {
    auto resources = MakeLaunchResources(context.plan, context.endpoint_is_here, context.options, context.security,
                                         context.environment, settle_seconds);
    const bool is_new = !context.plan.run_folder.empty() && !IsDirectory(context.plan.run_folder);
    const auto fault = FindOutsideFault(resources.status().message());
    if (!fault.has_value() || (is_new && fault->what == std::strerror(EROFS))) return resources;
    if (!told) PrintToUser(absl::StrCat(resources.status().message(), "; waiting until that has changed"));
    pollfd signal = {context.stop_signals, POLLIN, 0};
    if (poll(&signal, 1, 1000) > 0) return absl::CancelledError("a signal");
  }
}

// Returns the exit code of a launcher that was told to stop before it had anything to stop.
int StoppedCode(int stop_signals) {
  signalfd_siginfo info;
  return read(stop_signals, &info, sizeof(info)) == sizeof(info) ? 128 + static_cast<int>(info.ssi_signo)
                                                                 : exit_code::kFailure;
}

// `console` is created here, after the fork of the spawner.
absl::StatusOr<int> Run(const LaunchPlan& plan, const LaunchOptions& options, const Environment& environment,
                        const Platform& platform, std::optional<Console>& console) {
  LaunchContext context = {
      .options = options, .plan = plan, .environment = environment, .platform = platform, .launched = absl::Now()};
  context.stop_signals = TakeStopSignals();
  FindAddress(context);
  RETURN_IF_ERROR(CheckCards(context));
  ASSIGN_OR_RETURN(context.security, ChooseSecurity(options.security, environment, IsReachable(plan.shape)));
  context.memory = OpenMemory(plan, environment, absl::StrCat(HostName(), "-", RandomHex(8)));
  const bool remembers = context.memory != nullptr && context.memory->record().generation() > 0;
  auto resources = MakeLaunchResourcesWhenThereIsRoom(context, remembers ? RegatherSeconds(plan.shape) : 0);
  if (absl::IsCancelled(resources.status())) return StoppedCode(context.stop_signals);
  ASSIGN_OR_RETURN(context.resources, std::move(resources));
  ClearLeftoversOfOthers(plan, context.resources, environment);
  console.emplace();
  signal(SIGPIPE, SIG_IGN);  // the run outlives a reader of its output; workers do not inherit this
  grpc_init();               // in parallel with the start of the rendezvous
  RETURN_IF_ERROR(FindRendezvous(context));
  FindPlace(context);
  absl::StatusOr<int> code = Supervise(context, *console);
  if (absl::IsCancelled(code.status())) code = StoppedCode(context.stop_signals);
  context.resources.spawner->Finish();
  RemoveTree(context.resources.temp_folder).IgnoreError();  // the spawner has done this, unless it was killed
  const auto& slurm = platform.slurm;
  if (slurm.has_value() && code.ok() && MayRequeue(*code, context.first_node, options.requeue)) {
    PrintToUser(RequeueSlurmJob(*slurm, environment));
  }
  return code;
}

// Returns whether the user wants the launcher to end while it waits for the terminal.
bool StopIsPending() {
  sigset_t pending;
  return sigpending(&pending) == 0 && (sigismember(&pending, SIGINT) == 1 || sigismember(&pending, SIGTERM) == 1 ||
                                       sigismember(&pending, SIGHUP) == 1);
}

// Leaves what to paste into a report of the failure beside the run's logs.
void KeepEnvironment(const LaunchPlan& plan, const Environment& environment) {
  const std::string logs = JoinPath(plan.run_folder, "logs");
  if (!plan.job || !IsDirectory(logs)) return;
  const std::string path = JoinPath(logs, "environment.txt");
  if (AtomicWriteFile(path, GatherEnvironmentReport(environment), {.mode = 0600}).ok())
    PrintToUser(absl::StrCat("versions and machine, for a report of this failure: ", path));
}

}  // namespace

int Launch(const LaunchOptions& options, const Program& program, const Environment& environment) {
  const auto platform = LookAround(options, environment);
  auto plan = platform.ok() ? MakeLaunchPlan(options, program, environment, ToPlatform(*platform)) : platform.status();
  if (!plan.ok()) {
    PrintErrorToUser(plan.status().message());
    return exit_code::kUserError;
  }
  for (OptionValue& value : Explain(*platform)) plan->values.push_back(std::move(value));
  if (options.explain || options.dry_run) {
    std::printf("%s", (options.explain ? ExplainOptions(plan->values) : DescribePlan(*plan)).c_str());
    std::fflush(stdout);
    return exit_code::kDone;
  }
  if (const std::string advice = SlurmAdvice(environment); !advice.empty() && plan->shape.one_node())
    PrintToUser(advice);
  std::optional<Console> console;
  const absl::StatusOr<int> code = Run(*plan, options, environment, *platform, console);
  if (!code.ok()) PrintErrorToUser(code.status().message());
  if (console.has_value()) console->Flush(plan->job ? kFlushLogged : kFlushUnlogged, StopIsPending);
  if (code.ok() && (*code == exit_code::kFailure || *code == exit_code::kBudgetSpent))
    KeepEnvironment(*plan, environment);
  if (code.ok()) return *code;
  return absl::IsUnavailable(code.status())                                 ? exit_code::kUnavailable
         : absl::IsInternal(code.status()) || IsOutsideFault(code.status()) ? exit_code::kFailure
                                                                            : exit_code::kUserError;
}

}  // namespace composer
