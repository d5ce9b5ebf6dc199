// SPDX-License-Identifier: Apache-2.0
#include "launcher/launch_parts.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/console.h"
#include "base/file.h"
#include "base/machine_stats.h"
#include "base/random.h"
#include "base/status_macros.h"
#include "launcher/options/data_fingerprint.h"
#include "launcher/workers/node_resources.h"
#include "rendezvous/worlds/timeouts.h"

namespace composer {

int RegatherSeconds(const LaunchShape& shape) {
  return static_cast<int>(absl::ToInt64Seconds(TimeoutsOf(shape.max_nodes).regather));
}

namespace {

std::vector<std::string> ServeArguments(const LaunchContext& context) {
  if (!context.serves && context.place < 1) return {};
  const int place = context.serves ? 0 : context.place;
  ServeOptions serve = PlanServe(context.plan, context.options, context.security, place);
  if (context.serves) serve.port = context.rendezvous.port;
  // The host before this one is lost, and with it a part of the world.
  if (place > 0) serve.grace_seconds = std::min(serve.grace_seconds, RegatherSeconds(context.plan.shape));
  serve.settle_seconds = RegatherSeconds(context.plan.shape);
  std::vector<std::string> argv = {std::filesystem::read_symlink("/proc/self/exe"), "serve"};
  for (std::string& argument : ToArguments(serve)) argv.push_back(std::move(argument));
  return argv;
}

}  // namespace

absl::StatusOr<RendezvousClient::Options> ClientOptions(const LaunchContext& context) {
  const LaunchPlan& plan = context.plan;
  RendezvousClient::Options options;
  ASSIGN_OR_RETURN(options.credentials, MakeCredentials(context.security));
  options.address = context.rendezvous.ToString();
  options.job = plan.name;
  options.incarnation = RandomHex(8);
  options.clock = &RealClock::Get();
  options.max_nodes = plan.shape.max_nodes;
  proto::NodeInfo& node = options.node;
  node.set_hostname(HostName());
  node.set_node_id(absl::StrCat(node.hostname(), "-", options.incarnation));
  if (NodeMemory* const memory = context.memory.get(); memory != nullptr) {
    node.set_node_id(memory->node_id());
    options.record = memory->record();
    options.remember = [memory](const proto::MembershipRecord& record) { memory->Write(record); };
  }
  node.set_node_rank(plan.shape.node_rank);
  node.set_address(context.node_address.address);
  node.set_slots(plan.shape.slots);
  node.set_expected_world_size(plan.shape.world_size);
  node.set_config_hash(plan.config_hash);
  node.set_plugin_hash(plan.plugin_hash);
  node.set_version(COMPOSER_VERSION);
  node.set_node_group(plan.node_group);
  if (!plan.job) {
    ASSIGN_OR_RETURN(const int port, FreePort());
    node.set_free_port(port);
  }
  if (plan.shape.one_node()) return options;
  node.set_serves(context.serves);
  if (context.life != nullptr) *node.mutable_life() = context.life->place();
  for (const auto& [key, path] : plan.data_paths) {
    proto::DataPath& data = *node.add_data_paths();
    data.set_key(key);
    data.set_path(path);
    data.set_fingerprint(FingerprintData(path));
  }
  return options;
}

Supervisor::Options SupervisorOptions(const LaunchContext& context, const proto::NodeInfo& node) {
  const LaunchPlan& plan = context.plan;
  Supervisor::Options result;
  result.min_nodes = plan.shape.min_nodes;
  result.hang_limits.startup = plan.startup_limits;
  result.node_id = node.node_id();
  result.host = node.hostname();
  result.launched = context.launched;
  result.serve_argv = ServeArguments(context);
  result.serves = context.serves;
  result.plan = {.argv = plan.argv,
                 .environment = context.environment,
                 .job = plan.job,
                 .run_folder = plan.run_folder,
                 .temp_folder = context.resources.temp_folder,
                 .tee = plan.output.tee.all == 3,
                 .output = plan.output,
                 .colours = {.out = WantsColour(isatty(STDOUT_FILENO) != 0, context.environment),
                             .err = WantsColour(isatty(STDERR_FILENO) != 0, context.environment)},
                 .first_argument = plan.first_argument,
                 .place = {.master_port = context.rendezvous.port,
                           .max_restarts = plan.max_restarts,
                           .interface = context.node_address.interface,
                           .job = plan.name,
                           .run_name = plan.run_name,
                           .role = plan.role,
                           .terminal_columns = TerminalColumns(),
                           .terminal = TerminalDevice()},
                 .cpus = AllowedCpus()};
  WorkerPlace& place = result.plan.place;
  place.cpus = static_cast<int>(result.plan.cpus.size());
  place.without_gpus = VisibleGpus(result.plan.environment) == 0;
  if (const auto& slurm = context.platform.slurm; slurm.has_value()) {
    place.first_local_rank = slurm->first_local_rank;
    place.node_workers = slurm->local_world_size;
    const CpuSharing sharing = ShareCpus(*slurm, place.cpus, plan.shape.slots);
    place.cpu_sharers = sharing.workers;
    result.plan.first_cpu_share = sharing.first;
    result.plan.blocks_signals = plan.job;
  }
  result.plan.environment.Set("COMPOSER_LAUNCH_ID", RandomHex(8));
  PassToken(context.security, result.plan.environment);  // for a restarted rendezvous; workers do not get it
  return result;
}

absl::StatusOr<std::unique_ptr<PeerMemory>> StartPeerMemory(const LaunchContext& context,
                                                            const Credentials& credentials, Environment& workers) {
  if (!context.plan.peer_memory) return nullptr;
  const std::string folder = JoinPath(context.resources.temp_folder, "snapshots");
  workers.Set("COMPOSER_PEER_MEMORY", folder);
  if (context.plan.shape.one_node()) return nullptr;
  ASSIGN_OR_RETURN(auto memory, PeerMemory::Start({.folder = folder,
                                                   .job = context.plan.name,
                                                   .address = context.node_address.address,
                                                   .credentials = credentials}));
  workers.Set("COMPOSER_PEER_ADDRESS", memory->address());
  return memory;
}

}  // namespace composer
