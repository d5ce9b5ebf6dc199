// SPDX-License-Identifier: Apache-2.0
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/status_macros.h"
#include "checkpoint/format/checkpoint_name.h"
#include "checkpoint/save/saver.h"
#include "checkpoint/tools/commands.h"
#include "checkpoint/tools/composer_import.h"
#include "checkpoint/tools/weight_files.h"
#include "checkpoint/tools/weight_names.h"

namespace composer {
namespace {

struct Imported {
  StateDict state;
  CheckpointName step{0, 0};
  int64_t samples = 0;
  bool weights_only = true;
};

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

// A checkpoint of the Python Composer also has its optimizer's state and the time, unless `key` says where weights are.
absl::StatusOr<Imported> ReadSource(const std::string& path, const std::string& key, bool weights_only,
                                    const std::vector<RenameRule>& rules, const ToolContext& context) {
  Imported imported;
  ASSIGN_OR_RETURN(ImportedWeights weights, ReadWeights(path, key));
  for (const std::string& note : weights.notes) context.err << "note: " << note << "\n";
  std::optional<ComposerProgress> progress;
  if (key.empty() && !weights_only) {
    ASSIGN_OR_RETURN(progress, ReadComposerProgress(path, weights.tensors, rules));
  }
  ASSIGN_OR_RETURN(imported.state, AsModel(std::move(weights), rules));
  if (!progress.has_value()) return imported;
  for (const std::string& note : progress->notes) context.err << "note: " << note << "\n";
  context.err << "note: the order of samples from here on is this library's, as `seed` and the data give it\n";
  for (auto& tensor : progress->state.tensors) imported.state.tensors.push_back(std::move(tensor));
  imported.state.small = std::move(progress->state.small);
  imported.step = progress->step;
  imported.samples = progress->samples;
  imported.weights_only = false;
  return imported;
}

}  // namespace

absl::StatusOr<int> ImportTool(const std::vector<std::string>& args, const ToolContext& context) {
  std::vector<RenameRule> rules;
  std::string key, run_name;
  bool overwrite = false, weights_only = false;
  const std::vector<Option> options = {
      RenameOption(&rules), Valued("key", "A/B", "where in a torch.save file the tensors are", "", IntoString(&key)),
      Valued("run-name", "NAME", "of the checkpoint", "", IntoString(&run_name)),
      Switch("weights-only", "without optimizer and time of a checkpoint of the Python Composer",
             IntoBool(&weights_only)),
      Switch("overwrite", "replace a checkpoint of this step that is there", IntoBool(&overwrite))};
  ASSIGN_OR_RETURN(const std::vector<std::string> paths, ParseToolArguments(options, args, 2));
  if (IsRemotePlace(paths[0]))
    return absl::InvalidArgumentError(
        absl::StrCat(paths[0], ": weights are imported from a local file; copy it here first"));
  ASSIGN_OR_RETURN(const Imported imported, ReadSource(paths[0], key, weights_only, rules, context));
  ASSIGN_OR_RETURN(const std::shared_ptr<ObjectStore> store, OpenPlace(context.open, paths[1]));
  // A saver would replace one of the same run name.
  if (const std::string manifest = ManifestKey(imported.step.ToString()); !overwrite && store->Size(manifest).ok())
    return absl::AlreadyExistsError(absl::StrCat(store->Location(manifest), " is there; --overwrite replaces it"));
  Saver saver(*store, RankExchange(),
              {.run_name = run_name.empty() ? Stem(paths[0]) : run_name, .keep = -1, .overwrite = overwrite});
  ASSIGN_OR_RETURN(const std::string location, saver.Save(imported.state, imported.step, imported.samples));
  context.out << "imported  " << Counted(imported.state.tensors.size(), "tensor") << " of " << paths[0]
              << "\ncheckpoint  " << location << "\nload it with load_path: " << location
              << (imported.weights_only ? ", load_weights_only: true\n" : "\n");
  return kToolDone;
}

}  // namespace composer
