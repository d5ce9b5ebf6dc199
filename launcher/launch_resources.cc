// SPDX-License-Identifier: Apache-2.0
#include "launcher/launch_resources.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include "absl/time/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "launcher/control/run_file.h"
#include "launcher/options/job_file.h"
#include "launcher/process/job_cgroup.h"
#include "launcher/process/leftovers.h"
#include "net/network_facts.h"
#include "rendezvous/failover/succession.h"

namespace composer {
namespace {

constexpr char kLoopback[] = "127.0.0.1";
constexpr char kAllInterfaces[] = "0.0.0.0";  // Listener takes it for IPv6 as well

constexpr absl::Duration kNode0First = absl::Seconds(2), kLookInterval = absl::Milliseconds(20);

constexpr char kMemory[] = "/dev/shm";

absl::StatusOr<std::string> MakeTempFolder(const Environment& environment, bool in_memory) {
  const bool has_memory = access(kMemory, W_OK | X_OK) == 0;
  std::string path =
      JoinPath(in_memory && has_memory ? kMemory : environment.GetOr("TMPDIR", "/tmp"), "composer-XXXXXX");
  if (mkdtemp(path.data()) == nullptr) return ErrnoStatus(errno, "cannot make a temporary folder", path);
  path = AbsolutePath(path);
  const absl::StatusOr<int> owner = OwnTempFolder(path);  // held by this process and the spawner until they end
  if (owner.ok()) return path;
  RemoveTree(path).IgnoreError();
  return owner.status();
}

bool MayServe(const LaunchShape& shape, const ServeOptions& serve, bool endpoint_is_here) {
  if (shape.hosting != Hosting::kIfLocal) return shape.hosting == Hosting::kYes;
  const auto is_free = [&] { return PortIsFree(serve.bind_address, serve.port); };
  if (!endpoint_is_here || !is_free()) return false;
  const absl::Time wait_until = absl::Now() + (shape.node_rank > 0 ? kNode0First : absl::ZeroDuration());
  while (absl::Now() < wait_until) {
    absl::SleepFor(kLookInterval);
    if (!is_free()) return false;
  }
  return true;
}

}  // namespace

int NumServers(const LaunchShape& shape) {
  return shape.one_node() ? 1 : std::min(static_cast<int>(shape.endpoints.size()), kMaxServers);
}

ServeOptions PlanServe(const LaunchPlan& plan, const LaunchOptions& options, const JobSecurity& security, int place) {
  const Endpoint& endpoint = plan.shape.endpoints[place];
  return {.job = plan.name,
          .bind_address = plan.shape.one_node() || IsLoopbackName(endpoint.host) ? kLoopback : kAllInterfaces,
          .port = endpoint.port,
          .min_nodes = plan.shape.min_nodes,
          .max_nodes = plan.shape.max_nodes,
          .last_call_seconds = options.last_call,
          .grow = plan.grow,
          .grace_seconds = options.rdzv_grace,
          .blip_seconds = options.rdzv_blip,
          .place = place,
          .places = NumServers(plan.shape),
          .security = security,
          .of_launcher = true};
}

absl::StatusOr<LaunchResources> MakeLaunchResources(const LaunchPlan& plan, bool endpoint_is_here,
                                                    const LaunchOptions& options, const JobSecurity& security,
                                                    const Environment& environment, int settle_seconds) {
  LaunchResources resources;
  ServeOptions serve = PlanServe(plan, options, security);
  serve.settle_seconds = settle_seconds;
  bool serves = MayServe(plan.shape, serve, endpoint_is_here);
  if (plan.job && serves) {
    auto lock = RunLock::Take(plan.run_folder);
    if (!lock.ok() && plan.shape.hosting != Hosting::kIfLocal) return lock.status();
    serves = lock.ok();
    if (serves) {
      resources.lock = *std::move(lock);
      if (!plan.any_job_file) RETURN_IF_ERROR(CheckJobFile(plan.run_folder, plan.job_file));
      RETURN_IF_ERROR(RememberJobFile(plan.run_folder, plan.job_file));
      RETURN_IF_ERROR(MakePrivateDir(JoinPath(plan.run_folder, "logs")));  // it contains whatever a worker prints
    }
  }
  ASSIGN_OR_RETURN(resources.temp_folder, MakeTempFolder(environment, plan.peer_memory));
  Spawner::Options spawner = {.temp_folder = resources.temp_folder};
  if (resources.lock != nullptr) spawner.held = {resources.lock->fd()};
  int port_pipe[2] = {-1, -1};
  if (serves) {
    if (pipe2(port_pipe, O_CLOEXEC) != 0) return ErrnoStatus(errno, "make", "a pipe");
    serve.report_fd = port_pipe[1];
    spawner.early_child = [serve] { Serve(serve); };
    spawner.early_child_fd = port_pipe[1];
  }
  ASSIGN_OR_RETURN(resources.spawner, Spawner::Start(std::move(spawner)));
  if (serves) close(port_pipe[1]);
  resources.serve_port_fd = port_pipe[0];
  return resources;
}

void ClearLeftoversOfOthers(const LaunchPlan& plan, const LaunchResources& resources, const Environment& environment) {
  const std::vector<std::string> removed =
      ClearLeftovers({.temp_roots = {kMemory, environment.GetOr("TMPDIR", "/tmp")},
                      .cgroup_root = JobCgroupRoot(),
                      .run_folder = resources.lock != nullptr ? plan.run_folder : ""},
                     absl::Now());
  for (const std::string& path : removed) LOG(INFO) << "removed " << path << ", which a dead launcher had left";
  if (const auto registry = RegistryFolder(environment); registry.ok()) ListRuns(*registry);
}

}  // namespace composer
