// SPDX-License-Identifier: Apache-2.0
#include "launcher/launching.h"

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "launcher/control/run_file.h"
#include "launcher/options/endpoint.h"

namespace composer {
namespace {

constexpr char kOwnHost[] = "127.0.0.1";  // of what we serve ourselves

}  // namespace

void FindAddress(Launching& launching) {
  if (launching.plan.shape.one_node() && launching.plan.shape.hosting == Hosting::kYes) return;
  const AddressFacts facts = GatherAddressFacts(launching.options.local_addr, launching.plan.shape.endpoints[0].host);
  launching.endpoint_is_here = IsThisMachine(facts);
  launching.node_address = ChooseNodeAddress(facts);
}

bool IsReachable(const LaunchShape& shape) {
  const bool ours_alone = shape.one_node() && shape.hosting == Hosting::kYes;
  return !ours_alone && !IsLoopbackName(shape.endpoints[0].host);
}

absl::Status FindRendezvous(Launching& launching) {
  launching.rendezvous = launching.plan.shape.endpoints[0];
  if (launching.household.serve_port_fd < 0) return absl::OkStatus();
  const absl::StatusOr<int> port = ReadServePort(launching.household.serve_port_fd);
  // Two launchers on the endpoint's machine, and the other one was quicker.
  if (!port.ok() && launching.plan.shape.hosting == Hosting::kIfLocal) return absl::OkStatus();
  RETURN_IF_ERROR(port.status());
  launching.serves = true;
  launching.rendezvous = {kOwnHost, *port};
  return absl::OkStatus();
}

void FindPlace(Launching& launching) {
  const LaunchShape& shape = launching.plan.shape;
  const int servers = NumServers(shape);
  const auto& slurm = launching.surroundings.slurm;
  const bool shares_host = slurm.has_value() && slurm->tasks_here > 1 && launching.options.rdzv_endpoint.empty();
  if (launching.serves) {
    launching.place = 0;
  } else if (shares_host) {  // ranks count launchers, the list is of hosts: the first launcher of each
    launching.place = slurm->task == 0 && slurm->host < servers && servers > 1 ? slurm->host : -1;
  } else if (servers > 1 && shape.node_rank >= 0) {
    launching.place = shape.node_rank < servers ? shape.node_rank : -1;
  } else {
    for (int i = 1; i < servers && launching.place < 0; ++i) {
      if (IsThisMachine(GatherAddressFacts("", shape.endpoints[i].host))) launching.place = i;
    }
  }
}

RendezvousPlaces PlacesOf(const Launching& launching) {
  RendezvousPlaces places = {.self = launching.place,
                             .grace = absl::Seconds(launching.options.rdzv_grace),
                             .blip = absl::Seconds(launching.options.rdzv_blip)};
  // Told not to serve: a `composer serve` of its own does.
  places.hosted = launching.plan.shape.hosting != Hosting::kNo || !launching.options.rdzv_conf.contains("is_host");
  const int servers = NumServers(launching.plan.shape);
  const int own = launching.serves || launching.place > 0 ? launching.place : -1;
  for (int i = 0; i < servers && servers > 1; ++i) {
    Endpoint endpoint = launching.plan.shape.endpoints[i];
    if (i == own) endpoint.host = kOwnHost;  // whether its own name resolves here or not
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
