// SPDX-License-Identifier: Apache-2.0
#include "launcher/launch.h"

#include <grpc/grpc.h>
#include <signal.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "base/file.h"
#include "base/status_macros.h"
#include "launcher/console.h"
#include "launcher/data_fingerprint.h"
#include "launcher/household.h"
#include "launcher/launch_plan.h"
#include "launcher/meeting.h"
#include "launcher/node_address.h"
#include "launcher/node_resources.h"
#include "launcher/restart_policy.h"
#include "launcher/supervisor.h"

namespace composer {
namespace {

constexpr char kLoopback[] = "127.0.0.1";
constexpr int kSuccessorGraceSeconds = 8;  // the host before it is lost, and with it a part of the world
constexpr int kSettleSeconds =
    5;  // for a rendezvous that was started again: nodes tell it first of the world that runs

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

// Blocks the signals that stop a job and returns a signalfd for them. Before any thread, which then block them too.
int TakeStopSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2}) {
    struct sigaction action = {};
    const bool ignored = sigaction(number, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
    if (!ignored) sigaddset(&signals, number);  // nohup ignores SIGHUP; a signalfd would see it all the same
  }
  sigprocmask(SIG_BLOCK, &signals, nullptr);
  return signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
}

// What a launch is made of, as it becomes known.
struct Launching {
  const LaunchOptions& options;
  const LaunchPlan& plan;
  const Environment& environment;
  absl::Time launched;
  int stop_signals = -1;
  bool endpoint_is_here = true;
  NodeAddress node_address = {kLoopback, "", "one node"};
  Household household;
  bool serves = false;
  RendezvousPlaces places;
  Endpoint rendezvous;  // as this launcher reaches it
};

// With one node nothing is asked of the network.
void FindAddress(Launching& launching) {
  if (launching.plan.shape.one_node() && launching.plan.shape.hosting == Hosting::kYes) return;
  const AddressFacts facts = GatherAddressFacts(launching.options.local_addr, launching.plan.shape.endpoints[0].host);
  launching.endpoint_is_here = IsThisMachine(facts);
  launching.node_address = ChooseNodeAddress(facts);
}

// The port on which the rendezvous is served, here or elsewhere.
absl::Status FindRendezvous(Launching& launching) {
  launching.rendezvous = launching.plan.shape.endpoints[0];
  if (launching.household.serve_port_fd < 0) return absl::OkStatus();
  const absl::StatusOr<int> port = ReadServePort(launching.household.serve_port_fd);
  // Two launchers on the endpoint's machine, and the other one was quicker.
  if (!port.ok() && launching.plan.shape.hosting == Hosting::kIfLocal) return absl::OkStatus();
  RETURN_IF_ERROR(port.status());
  launching.serves = true;
  launching.rendezvous = {kLoopback, *port};
  return absl::OkStatus();
}

// The hosts that may serve, as this launcher reaches them, and which of them this one is.
void FindPlaces(Launching& launching) {
  const LaunchShape& shape = launching.plan.shape;
  RendezvousPlaces& places = launching.places;
  places.hosted = shape.hosting != Hosting::kNo;
  places.servers = {launching.rendezvous.ToString()};
  if (launching.serves) places.self = 0;
  for (int i = 1; i < ServersOf(shape); ++i) {
    places.servers.push_back(shape.endpoints[i].ToString());
    if (places.self < 0 && IsThisMachine(GatherAddressFacts(launching.options.local_addr, shape.endpoints[i].host)))
      places.self = i;
  }
}

absl::StatusOr<RendezvousClient::Options> ClientOptions(const Launching& launching) {
  const LaunchPlan& plan = launching.plan;
  RendezvousClient::Options options;
  options.address = launching.rendezvous.ToString();
  options.job = plan.name;
  options.incarnation = RandomName();
  options.clock = &RealClock::Get();
  proto::NodeInfo& node = options.node;
  node.set_hostname(HostName());
  node.set_node_id(absl::StrCat(node.hostname(), "-", options.incarnation));
  node.set_node_rank(plan.shape.node_rank);
  node.set_address(launching.node_address.address);
  node.set_slots(plan.shape.slots);
  node.set_expected_world_size(plan.shape.world_size);
  node.set_config_hash(plan.config_hash);
  node.set_plugin_hash(plan.plugin_hash);
  node.set_version(COMPOSER_VERSION);
  if (!plan.job) {
    ASSIGN_OR_RETURN(const int port, FreePort());
    node.set_free_port(port);
  }
  if (plan.shape.one_node()) return options;
  for (const auto& [key, path] : plan.data_paths) {
    proto::DataPath& data = *node.add_data_paths();
    data.set_key(key);
    data.set_path(path);
    data.set_fingerprint(FingerprintData(path));
  }
  return options;
}

std::vector<std::string> ServeArguments(const Launching& launching) {
  const int place = launching.places.self;
  if (place < 0) return {};
  ServeOptions serve = PlanServe(launching.plan, launching.options);
  serve.place = place;
  serve.port = place == 0 ? launching.rendezvous.port : launching.plan.shape.endpoints[place].port;
  if (place > 0) serve.grace_seconds = kSuccessorGraceSeconds;
  serve.settle_seconds = kSettleSeconds;
  std::vector<std::string> argv = {std::filesystem::read_symlink("/proc/self/exe"), "serve"};
  for (std::string& argument : ToArguments(serve)) argv.push_back(std::move(argument));
  return argv;
}

Supervisor::Options SupervisorOptions(const Launching& launching, const proto::NodeInfo& node) {
  const LaunchPlan& plan = launching.plan;
  Supervisor::Options result;
  result.job = plan.name;
  result.run_name = plan.run_name;
  result.max_restarts = plan.max_restarts;
  result.node_id = node.node_id();
  result.host = node.hostname();
  result.rendezvous_port = launching.rendezvous.port;
  result.launched = launching.launched;
  result.serve_argv = ServeArguments(launching);
  result.plan = {.argv = plan.argv,
                 .environment = launching.environment,
                 .job = plan.job,
                 .run_folder = plan.run_folder,
                 .temp_folder = launching.household.temp_folder,
                 .tee = plan.output.tee.all == 3,
                 .output = plan.output,
                 .first_argument = plan.first_argument,
                 .role = plan.role,
                 .interface = launching.node_address.interface,
                 .terminal_columns = TerminalColumns(),
                 .cpus = AllowedCpus()};
  return result;
}

// Connects the parts and runs the job. Mailbox, link and hub are never destroyed: a thread of theirs may still wait for a
// rendezvous that is gone, and the process is about to _exit.
absl::StatusOr<int> Supervise(Launching& launching) {
  ASSIGN_OR_RETURN(const RendezvousClient::Options client, ClientOptions(launching));
  Supervisor::Options options = SupervisorOptions(launching, client.node);
  auto& mailbox = *new Mailbox<SupervisorEvent>();
  const absl::Duration limit = absl::Seconds(launching.options.join_timeout);
  ASSIGN_OR_RETURN(
      auto link,
      Meet({launching.rendezvous, limit, launching.stop_signals}, client,
           {.on_world = [&](auto world) { mailbox.Post(std::move(world)); },
            .on_generation_over = [&](const auto& over) { mailbox.Post(over); },
            .on_regroup = [&](const auto& regroup) { mailbox.Post(regroup); },
            .on_spare = [](const auto& spare) { Tell(absl::StrCat("waiting as a spare: ", spare.reason())); },
            .on_serve = [&] { mailbox.Post(ServeHere{}); }},
           launching.places));
  ASSIGN_OR_RETURN(auto hub,
                   WorkerHub::Start({.socket_path = launching.household.temp_folder + "/hub",
                                     .job = options.job,
                                     .upstream = link->upstream(),
                                     .handler = [&](WorkerHub::Report report) { mailbox.Post(std::move(report)); }}));
  RendezvousLink& lasting_link = *link.release();
  Supervisor supervisor(std::move(options),
                        {*launching.household.keeper, lasting_link, *hub.release(), mailbox, launching.stop_signals});
  const int code = supervisor.Run();
  lasting_link.Leave("the launcher ends");
  return code;
}

// A launcher that was told to stop before it had anything to stop.
int StoppedCode(int stop_signals) {
  signalfd_siginfo info;
  return read(stop_signals, &info, sizeof(info)) == sizeof(info) ? 128 + static_cast<int>(info.ssi_signo)
                                                                 : exit_code::kFailure;
}

absl::StatusOr<int> Run(const LaunchPlan& plan, const LaunchOptions& options, const Environment& environment) {
  Launching launching = {.options = options, .plan = plan, .environment = environment, .launched = absl::Now()};
  launching.stop_signals = TakeStopSignals();
  FindAddress(launching);
  ASSIGN_OR_RETURN(launching.household, MakeHousehold(plan, launching.endpoint_is_here, options, environment));
  signal(SIGPIPE, SIG_IGN);  // the run outlives a reader of its output; not inherited by the workers
  grpc_init();               // while the rendezvous starts
  RETURN_IF_ERROR(FindRendezvous(launching));
  FindPlaces(launching);
  absl::StatusOr<int> code = Supervise(launching);
  if (absl::IsCancelled(code.status())) code = StoppedCode(launching.stop_signals);
  launching.household.keeper->Finish();
  RemoveTree(launching.household.temp_folder).IgnoreError();  // the keeper has done it, unless it was killed
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
