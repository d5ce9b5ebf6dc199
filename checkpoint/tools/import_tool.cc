// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/status_macros.h"
#include "checkpoint/format/checkpoint_name.h"
#include "checkpoint/save/saver.h"
#include "checkpoint/tools/commands.h"
#include "checkpoint/tools/weight_files.h"
#include "checkpoint/tools/weight_names.h"

namespace composer {
namespace {

absl::StatusOr<StateDict> AsModel(ImportedWeights weights, const std::vector<RenameRule>& rules) {
  std::vector<std::string> before, after;
  for (const auto& [name, tensor] : weights.tensors) {
    before.push_back(name);
    after.push_back(Renamed(name, rules));
  }
  RETURN_IF_ERROR(CheckRenamed(before, after, rules));
  StateDict state;
  for (size_t i = 0; i < after.size(); ++i)
    state.tensors.emplace_back(absl::StrCat(kModelPrefix, after[i]), std::move(weights.tensors[i].second));
  return state;
}

}  // namespace

absl::StatusOr<int> ImportTool(const std::vector<std::string>& args, const ToolContext& context) {
  std::vector<RenameRule> rules;
  std::string key, run_name;
  bool overwrite = false;
  const std::vector<Option> options = {
      RenameOption(&rules),
      {.name = "key", .metavar = "A/B", .help = "where in a torch.save file the tensors are", .set = IntoString(&key)},
      {.name = "run-name", .metavar = "NAME", .help = "of the checkpoint", .set = IntoString(&run_name)},
      {.name = "overwrite", .help = "replace a checkpoint ep0-ba0 that is there", .set = IntoBool(&overwrite)}};
  ASSIGN_OR_RETURN(const std::vector<std::string> paths, ParseToolArguments(options, args, 2));
  if (IsRemotePlace(paths[0]))
    return absl::InvalidArgumentError(
        absl::StrCat(paths[0], ": weights are imported from a local file; copy it here first"));
  ASSIGN_OR_RETURN(ImportedWeights weights, ReadWeights(paths[0], key));
  for (const std::string& note : weights.notes) context.err << "note: " << note << "\n";
  ASSIGN_OR_RETURN(const StateDict state, AsModel(std::move(weights), rules));
  ASSIGN_OR_RETURN(const std::shared_ptr<ObjectStore> store, OpenPlace(context.open, paths[1]));
  const CheckpointName step{0, 0};
  // A saver would replace one of the same run name.
  if (const std::string manifest = ManifestKey(step.ToString()); !overwrite && store->Size(manifest).ok())
    return absl::AlreadyExistsError(absl::StrCat(store->Location(manifest), " is there; --overwrite replaces it"));
  Saver saver(*store, RankExchange(),
              {.run_name = run_name.empty() ? Stem(paths[0]) : run_name, .keep = -1, .overwrite = overwrite});
  ASSIGN_OR_RETURN(const std::string location, saver.Save(state, step, 0));
  context.out << "imported  " << Counted(state.tensors.size(), "tensor") << " of " << paths[0] << "\ncheckpoint  "
              << location << "\nload it with load_path: " << location << ", load_weights_only: true\n";
  return kToolDone;
}

}  // namespace composer
