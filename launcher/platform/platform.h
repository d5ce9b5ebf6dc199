// The surroundings of a launch that flags and environment do not name: the batch system that started it, and those who
// may take the machine away.
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
  std::optional<SlurmPlace> slurm;  // nullopt if this is not a task of a Slurm step
  std::vector<PreemptionSpec> preemption;
};

// Returns kInvalidArgument if Slurm's variables contradict each other or --preemption is wrong.
absl::StatusOr<Platform> LookAround(const LaunchOptions& options, const Environment& environment);

// Returns what Slurm says about the shape of the job, with at most 16 hosts: the first and those that would take over.
PlatformShape ToPlatform(const Platform& platform);

// Returns the settings for --explain.
std::vector<OptionValue> Explain(const Platform& platform);

// Polls the sources from now on; returns null if there are none.
std::unique_ptr<PreemptionWatch> StartPreemptionWatch(const Platform& platform,
                                                      std::function<void(const Notice&)> on_notice);

}  // namespace composer
