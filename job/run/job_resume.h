// What a job does when it resumes: it reports from where and what has changed since, and refuses a checkpoint whose
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

// Returns what checkpoints keep of a job's configuration (KeptConfig). Secrets are hashed with a key that stays in the
// run's folder, `.config_key`, mode 0600; rank 0 makes it. Without the key the hashes are left out, and changes of such
// settings are not detected.
absl::StatusOr<KeptConfig> KeepConfigOfRun(const ConfigNode& effective, const std::string& run_folder, bool make_key);

// Converts to and from JSON {"settings": {…}, "hashes": {…}}. ParseKept: kDataLoss for anything else.
std::string SerializeKept(const KeptConfig& kept);
absl::StatusOr<KeptConfig> ParseKept(const std::string& json);

// Returns "resuming from ep2-ba64 of 2026-11-22 12:01:07 UTC (/runs/x/checkpoints/ep2-ba64); changed since:
// optimizers.lr 0.001 -> 0.5". A pure function. kInvalidArgument, listing the changes, when some make the checkpoint's
// state meaningless and are not permitted by resume_changes.
absl::StatusOr<std::string> JudgeResume(const ResumePoint& point, const KeptConfig& now,
                                        const std::vector<std::string>& resume_changes);

// Returns whether the run folder's summary.json says that an earlier launch reached the run's end.
bool HasEnded(const std::string& run_folder);

}  // namespace composer
