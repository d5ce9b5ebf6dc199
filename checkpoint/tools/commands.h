// These are the subcommands of `composer checkpoint`, each in a file of its own, and what they share.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/option_help.h"
#include "base/options.h"
#include "checkpoint/format/checkpoint_place.h"
#include "checkpoint/format/manifest.h"
#include "storage/object_store.h"

namespace composer {

// These are the exit codes.
inline constexpr int kToolDone = 0, kToolDifferent = 1, kToolUserError = 64, kToolDamaged = 70, kToolInUse = 75;

struct ToolContext {
  const StoreOpener& open;  // for places that are URLs; empty: only paths
  std::ostream& out;
  std::ostream& err;
  absl::Time now;
};

// Each takes the arguments after the subcommand and returns its exit code, or an error that becomes kToolUserError.
absl::StatusOr<int> ListTool(const std::vector<std::string>& args, const ToolContext& context);
absl::StatusOr<int> ShowTool(const std::vector<std::string>& args, const ToolContext& context);
absl::StatusOr<int> VerifyTool(const std::vector<std::string>& args, const ToolContext& context);
absl::StatusOr<int> DiffTool(const std::vector<std::string>& args, const ToolContext& context);
absl::StatusOr<int> ExportTool(const std::vector<std::string>& args, const ToolContext& context);
absl::StatusOr<int> ImportTool(const std::vector<std::string>& args, const ToolContext& context);
absl::StatusOr<int> PruneTool(const std::vector<std::string>& args, const ToolContext& context);

// Returns one checkpoint. For a folder it is the newest valid one, and those refused are named on context.err.
absl::StatusOr<CheckpointPlace> FindOneCheckpoint(const std::string& path, const ToolContext& context);
// Returns a folder of checkpoints; kInvalidArgument for the path of a single one.
absl::StatusOr<CheckpointPlace> FindCheckpointFolder(const std::string& path, const ToolContext& context);

// Returns the flag `--rename FROM=TO`, which may be repeated.
struct RenameRule;
Option RenameOption(std::vector<RenameRule>* rules);

// Returns "1 file", "2 files".
std::string Counted(size_t count, absl::string_view what);

// Returns "1.5 MB".
std::string HumanBytes(int64_t bytes);

}  // namespace composer
