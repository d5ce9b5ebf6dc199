// What surrounds a launch beside flags and environment names: the batch system that started it, and those who may take the
// machine away.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/env.h"
#include "base/options.h"
#include "launcher/options/launch_options.h"
#include "launcher/options/launch_shape.h"
#include "launcher/platform/preemption_spec.h"
#include "launcher/platform/preemption_watch.h"
#include "launcher/platform/slurm_environment.h"

namespace composer {

struct Platform {
  std::optional<SlurmPlace> slurm;  // nullopt: not a task of a Slurm step
  std::vector<PreemptionSpec> preemption;
};

// kInvalidArgument: Slurm's variables contradict each other, or --preemption is wrong.
absl::StatusOr<Platform> LookAround(const LaunchOptions& options, const Environment& environment);

// What Slurm says of the shape of the job. At most 16 hosts are named: the first and those that would follow it.
PlatformShape ToPlatform(const Platform& platform);

// For --explain.
std::vector<OptionValue> Explain(const Platform& platform);

// Asks the sources from now on; null when there are none.
std::unique_ptr<PreemptionWatch> StartPreemptionWatch(const Platform& platform,
                                                      std::function<void(const Notice&)> on_notice);

}  // namespace composer
