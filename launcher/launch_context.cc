// SPDX-License-Identifier: Apache-2.0
#include "launcher/launch_context.h"

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "launcher/control/run_file.h"
#include "net/endpoint.h"

namespace composer {
namespace {

constexpr char kOwnHost[] = "127.0.0.1";  // address of what we serve ourselves

}  // namespace

void FindAddress(LaunchContext& context) {
  if (context.plan.shape.one_node() && context.plan.shape.hosting == Hosting::kYes) return;
  const AddressFacts facts = GatherAddressFacts(context.options.local_addr, context.plan.shape.endpoints[0].host);
  context.endpoint_is_here = IsThisMachine(facts);
  context.node_address = ChooseNodeAddress(facts);
}

bool IsReachable(const LaunchShape& shape) {
  const bool ours_alone = shape.one_node() && shape.hosting == Hosting::kYes;
  return !ours_alone && !IsLoopbackName(shape.endpoints[0].host);
}

absl::Status FindRendezvous(LaunchContext& context) {
  context.rendezvous = context.plan.shape.endpoints[0];
  if (context.resources.serve_port_fd < 0) return absl::OkStatus();
  const absl::StatusOr<int> port = ReadServePort(context.resources.serve_port_fd);
  // Another launcher on the endpoint's machine was faster.
  if (!port.ok() && context.plan.shape.hosting == Hosting::kIfLocal) return absl::OkStatus();
  RETURN_IF_ERROR(port.status());
  context.serves = true;
  context.rendezvous = {kOwnHost, *port};
  return absl::OkStatus();
}

void FindPlace(LaunchContext& context) {
  const LaunchShape& shape = context.plan.shape;
  const int servers = NumServers(shape);
  const auto& slurm = context.platform.slurm;
  const bool shares_host = slurm.has_value() && slurm->tasks_here > 1 && context.options.rdzv_endpoint.empty();
  if (context.serves) {
    context.place = 0;
  } else if (shares_host) {  // ranks count launchers but the list holds hosts: take each host's first launcher
    context.place = slurm->task == 0 && slurm->host < servers && servers > 1 ? slurm->host : -1;
  } else if (servers > 1 && shape.node_rank >= 0) {
    context.place = shape.node_rank < servers ? shape.node_rank : -1;
  } else {
    for (int i = 1; i < servers && context.place < 0; ++i) {
      if (IsThisMachine(GatherAddressFacts("", shape.endpoints[i].host))) context.place = i;
    }
  }
}

RendezvousPlaces PlacesOf(const LaunchContext& context) {
  RendezvousPlaces places = {.self = context.place,
                             .grace = absl::Seconds(context.options.rdzv_grace),
                             .blip = absl::Seconds(context.options.rdzv_blip)};
  // A launcher that was told not to serve relies on a separate `composer serve`.
  places.hosted = context.plan.shape.hosting != Hosting::kNo || !context.options.rdzv_conf.contains("is_host");
  const int servers = NumServers(context.plan.shape);
  const int own = context.serves || context.place > 0 ? context.place : -1;
  for (int i = 0; i < servers && servers > 1; ++i) {
    Endpoint endpoint = context.plan.shape.endpoints[i];
    if (i == own) endpoint.host = kOwnHost;  // works even if its own name does not resolve here
    places.servers.push_back(endpoint.ToString());
  }
  return places;
}

std::unique_ptr<NodeMemory> OpenMemory(const LaunchPlan& plan, const Environment& environment,
                                       const std::string& fresh_id) {
  if (NumServers(plan.shape) < 2) return nullptr;
  std::string identity = absl::StrCat(plan.name, "\n", plan.shape.node_rank);
  for (const Endpoint& endpoint : plan.shape.endpoints) absl::StrAppend(&identity, "\n", endpoint.ToString());
  absl::StatusOr<std::string> registry = RegistryFolder(environment);
  auto memory = registry.ok() ? NodeMemory::Open(*registry, identity, fresh_id) : registry.status();
  if (memory.ok()) return *std::move(memory);
  LOG(WARNING) << "this launcher will be forgotten if it is killed: " << memory.status().message();
  return nullptr;
}

}  // namespace composer
