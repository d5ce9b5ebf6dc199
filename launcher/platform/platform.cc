// SPDX-License-Identifier: Apache-2.0
#include "launcher/platform/platform.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/console.h"
#include "base/status_macros.h"
#include "launcher/workers/node_resources.h"
#include "net/curl_http.h"

namespace composer {
namespace {

constexpr size_t kMaxHosts = 16;

}  // namespace

absl::StatusOr<Platform> LookAround(const LaunchOptions& options, const Environment& environment) {
  Platform result;
  if (!options.standalone) {
    ASSIGN_OR_RETURN(result.slurm, ReadSlurmPlace(environment, VisibleGpus(environment)));
  }
  ASSIGN_OR_RETURN(result.preemption,
                   ParsePreemption(options.preemption, environment,
                                   options.preemption.empty() ? MachineFacts() : ReadMachineFacts()));
  return result;
}

PlatformShape ToPlatform(const Platform& platform) {
  if (!platform.slurm.has_value()) return {};
  const SlurmPlace& place = *platform.slurm;
  PlatformShape shape;
  shape.name = "Slurm";
  shape.nodes = place.nodes.value;
  shape.node_rank = place.node_rank.value;
  if (place.slots.has_value()) shape.slots = place.slots->value;
  const size_t hosts = std::min(place.hosts.size(), kMaxHosts);
  shape.hosts.assign(place.hosts.begin(), place.hosts.begin() + static_cast<std::ptrdiff_t>(hosts));
  shape.port = place.port.value;
  shape.node_group = place.node_group;
  return shape;
}

std::vector<OptionValue> Explain(const Platform& platform) {
  if (!platform.slurm.has_value()) return {};
  const SlurmPlace& place = *platform.slurm;
  const auto value = [](const SlurmNumber& number) { return absl::StrCat(number.value); };
  std::vector<OptionValue> values = {
      {"slurm job", absl::StrCat(place.job_id, ".", place.step_id), "environment SLURM_JOB_ID, SLURM_STEP_ID"},
      {"slurm rank", absl::StrCat(value(place.node_rank), " of ", value(place.nodes)),
       absl::StrCat("environment ", place.node_rank.origin, ", ", place.nodes.origin)},
      {"slurm hosts", absl::StrCat(place.hosts.size(), ", first ", place.hosts[0]),
       absl::StrCat("environment ", place.hosts_origin)}};
  if (place.slots.has_value()) {
    values.push_back({"slurm workers", value(*place.slots), absl::StrCat("environment ", place.slots->origin)});
  }
  if (place.restarts > 0) {
    values.push_back({"slurm requeues", absl::StrCat(place.restarts), "environment SLURM_RESTART_COUNT"});
  }
  return values;
}

std::unique_ptr<PreemptionWatch> StartPreemptionWatch(const Platform& platform,
                                                      std::function<void(const Notice&)> on_notice) {
  if (platform.preemption.empty()) return nullptr;
  std::vector<std::unique_ptr<PreemptionSource>> sources;
  const auto http = std::make_shared<CurlHttp>();
  for (const PreemptionSpec& spec : platform.preemption) {
    sources.push_back(MakePreemptionSource(spec, http));
  }
  return std::make_unique<PreemptionWatch>(
      std::move(sources),
      PreemptionWatch::Handlers{.on_notice = std::move(on_notice),
                                .on_unreachable = [](const std::string& text) { PrintToUser(text); }},
      &RealClock::Get());
}

}  // namespace composer
