// What a job does when it resumes: it says from where and what has changed since, and refuses a checkpoint whose
// state means nothing with the new settings.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "config/config_changes.h"
#include "config/node.h"
#include "trainer/options/trainer_options.h"

namespace composer {

// What checkpoints keep of a job's configuration (KeptConfig). Where it has secrets, they are hashed with a key that
// stays in the run's folder, `.config_key`, mode 0600: rank 0 makes it. Without the key the hashes are left out, and
// nothing is said of such settings.
absl::StatusOr<KeptConfig> KeepConfigOfRun(const ConfigNode& effective, const std::string& run_folder, bool make_key);

// As JSON {"settings": {…}, "hashes": {…}}. ParseKept: kDataLoss for anything else.
std::string SerializeKept(const KeptConfig& kept);
absl::StatusOr<KeptConfig> ParseKept(const std::string& json);

// "resuming from ep2-ba64 of 2026-11-22 12:01:07 UTC (/runs/x/checkpoints/ep2-ba64); changed since: optimizers.lr
// 0.001 -> 0.5". A pure function. kInvalidArgument, with the changes: those that make the checkpoint's state
// meaningless and that resume_changes does not permit.
absl::StatusOr<std::string> JudgeResume(const ResumePoint& point, const KeptConfig& now,
                                        const std::vector<std::string>& resume_changes);

// Does the run folder's summary.json say that an earlier launch came to the run's end?
bool HasEnded(const std::string& run_folder);

}  // namespace composer
