// SPDX-License-Identifier: Apache-2.0
#include "launcher/launch.h"

#include <fcntl.h>
#include <grpc/grpc.h>
#include <signal.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "base/file.h"
#include "base/status_macros.h"
#include "launcher/console.h"
#include "launcher/launch_plan.h"
#include "launcher/node_resources.h"
#include "launcher/restart_policy.h"
#include "launcher/run_lock.h"
#include "launcher/serve.h"
#include "launcher/supervisor.h"

namespace composer {
namespace {

constexpr char kAddress[] = "127.0.0.1";

std::string RandomName() {
  uint64_t bits = 0;
  if (getrandom(&bits, sizeof(bits), 0) != sizeof(bits)) bits = static_cast<uint64_t>(absl::GetCurrentTimeNanos());
  return absl::StrFormat("%016x", bits);
}

std::string HostName() {
  char name[256] = {};
  gethostname(name, sizeof(name) - 1);
  return name;
}

absl::StatusOr<std::string> MakeTempFolder(const Environment& environment) {
  std::string path = JoinPath(environment.GetOr("TMPDIR", "/tmp"), "composer-XXXXXX");
  if (mkdtemp(path.data()) == nullptr) return ErrnoStatus(errno, "cannot make a temporary folder", path);
  return AbsolutePath(path);
}

// Blocks the signals that stop a job and returns a signalfd for them. Before any thread, which then block them too.
int TakeStopSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2}) sigaddset(&signals, signal);
  sigprocmask(SIG_BLOCK, &signals, nullptr);
  return signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
}

// The processes of a launch that are there before the workers.
struct Household {
  std::unique_ptr<RunLock> lock;  // null for programs
  std::string temp_folder;
  std::unique_ptr<Keeper> keeper;
  int serve_port_fd = -1;  // see ReadServePort
};

absl::StatusOr<Household> Fork(const LaunchPlan& plan, const LaunchOptions& options, const Environment& environment) {
  Household household;
  if (plan.job) {
    ASSIGN_OR_RETURN(household.lock, RunLock::Take(plan.run_folder));
  }
  ASSIGN_OR_RETURN(household.temp_folder, MakeTempFolder(environment));
  int port_pipe[2];
  if (pipe2(port_pipe, O_CLOEXEC) != 0) return ErrnoStatus(errno, "make", "a pipe");
  const ServeOptions serve = {.job = plan.name,
                              .bind_address = kAddress,
                              .port = options.master_port,
                              .report_fd = port_pipe[1],
                              .of_launcher = true};
  ASSIGN_OR_RETURN(household.keeper, Keeper::Start({.temp_folder = household.temp_folder,
                                                    .early_child = [serve] { Serve(serve); },
                                                    .early_child_fd = port_pipe[1]}));
  close(port_pipe[1]);
  household.serve_port_fd = port_pipe[0];
  return household;
}

RendezvousClient::Options ClientOptions(const LaunchPlan& plan, int port) {
  RendezvousClient::Options options;
  options.address = absl::StrCat(kAddress, ":", port);
  options.job = plan.name;
  options.incarnation = RandomName();
  options.clock = &RealClock::Get();
  options.node.set_hostname(HostName());
  options.node.set_node_id(absl::StrCat(options.node.hostname(), "-", options.incarnation));
  options.node.set_node_rank(0);
  options.node.set_address(kAddress);
  options.node.set_slots(plan.nproc);
  options.node.set_config_hash(plan.config_hash);
  options.node.set_version(COMPOSER_VERSION);
  return options;
}

Supervisor::Options SupervisorOptions(const LaunchPlan& plan, const LaunchOptions& options,
                                      const Environment& environment, const std::string& temp_folder) {
  Supervisor::Options result;
  result.job = plan.name;
  result.run_name = plan.run_name;
  result.max_restarts = plan.max_restarts;
  result.plan = {.argv = plan.argv,
                 .environment = environment,
                 .job = plan.job,
                 .run_folder = plan.run_folder,
                 .temp_folder = temp_folder,
                 .tee = options.tee,
                 .terminal_columns = TerminalColumns(),
                 .cpus = AllowedCpus()};
  return result;
}

// Connects the parts and runs the job. Mailbox, link and hub are never destroyed: a thread of theirs may still wait for a
// rendezvous that is gone, and the process is about to _exit.
absl::StatusOr<int> Supervise(Household& household, const RendezvousClient::Options& client,
                              Supervisor::Options options, int stop_signals) {
  auto& mailbox = *new Mailbox<SupervisorEvent>();
  ASSIGN_OR_RETURN(
      auto link, RendezvousLink::Start(client, {.on_world = [&](auto world) { mailbox.Post(std::move(world)); },
                                                .on_generation_over = [&](const auto& over) { mailbox.Post(over); }}));
  ASSIGN_OR_RETURN(auto hub,
                   WorkerHub::Start({.socket_path = household.temp_folder + "/hub",
                                     .job = options.job,
                                     .upstream = link->upstream(),
                                     .handler = [&](WorkerHub::Report report) { mailbox.Post(std::move(report)); }}));
  RendezvousLink& lasting_link = *link.release();
  Supervisor supervisor(std::move(options), {*household.keeper, lasting_link, *hub.release(), mailbox, stop_signals});
  const int code = supervisor.Run();
  lasting_link.Leave("the launcher ends");
  return code;
}

absl::StatusOr<int> Run(const LaunchPlan& plan, const LaunchOptions& options, const Environment& environment) {
  const absl::Time launched = absl::Now();
  const int stop_signals = TakeStopSignals();
  ASSIGN_OR_RETURN(Household household, Fork(plan, options, environment));
  signal(SIGPIPE, SIG_IGN);  // the run outlives a reader of its output; not inherited by the workers
  grpc_init();               // while the rendezvous starts
  ASSIGN_OR_RETURN(const int port, ReadServePort(household.serve_port_fd));
  const RendezvousClient::Options client = ClientOptions(plan, port);
  Supervisor::Options supervised = SupervisorOptions(plan, options, environment, household.temp_folder);
  supervised.node_id = client.node.node_id();
  supervised.host = client.node.hostname();
  supervised.rendezvous_port = port;
  supervised.launched = launched;
  supervised.serve_argv = {std::filesystem::read_symlink("/proc/self/exe"), "serve", "--of-launcher",
                           absl::StrCat("--port=", port), absl::StrCat("--job=", plan.name), "--settle=5"};
  const absl::StatusOr<int> code = Supervise(household, client, std::move(supervised), stop_signals);
  household.keeper->Finish();
  RemoveTree(household.temp_folder).IgnoreError();  // the keeper has done it, unless it was killed
  return code;
}

}  // namespace

int Launch(const LaunchOptions& options, const Program& program, const Environment& environment) {
  const auto plan = MakeLaunchPlan(options, program, environment);
  if (!plan.ok()) {
    Tell(plan.status().message());
    return exit_code::kUserError;
  }
  if (options.explain || options.dry_run) {
    std::printf("%s", (options.explain ? ExplainOptions(plan->values) : DescribePlan(*plan)).c_str());
    std::fflush(stdout);
    return exit_code::kDone;
  }
  const absl::StatusOr<int> code = Run(*plan, options, environment);
  if (code.ok()) return *code;
  Tell(code.status().message());
  return absl::IsUnavailable(code.status()) ? exit_code::kUnavailable
         : absl::IsInternal(code.status())  ? exit_code::kFailure
                                            : exit_code::kUserError;
}

}  // namespace composer
