// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/tools/composer_export.h"

#include <torch/types.h>

#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/file.h"
#include "base/format/json.h"
#include "base/status_macros.h"
#include "checkpoint/folder/verify.h"
#include "checkpoint/format/dtype.h"
#include "checkpoint/load/reader.h"
#include "checkpoint/tools/torch_optimizer.h"
#include "checkpoint/torch_files/packed_file.h"
#include "checkpoint/torch_files/pickle_writer.h"
#include "checkpoint/torch_files/torch_writer.h"

namespace composer {
namespace {

using Json = nlohmann::json;

// The pickle of a file under construction, and the tensors that it refers to, by number of storage.
struct Draft {
  PickleWriter pickle;
  std::vector<at::Tensor> storages;

  absl::Status Add(absl::string_view name, const at::Tensor& tensor) {
    pickle.String(name);
    storages.push_back(tensor.contiguous());
    return Annotate(
        pickle.Tensor(DTypeName(tensor.scalar_type()), tensor.sizes(), static_cast<int64_t>(storages.size()) - 1),
        std::string(name));
  }
};

absl::Status AddOptimizerState(const TorchOptimizer& optimizer, Draft& draft) {
  PickleWriter& pickle = draft.pickle;
  pickle.String("optimizers");
  pickle.BeginDict();
  pickle.String(optimizer.name);
  pickle.BeginDict();
  pickle.String("state");
  pickle.BeginDict();
  for (const TorchOptimizer::Parameter& parameter : optimizer.parameters) {
    pickle.String(parameter.name);
    pickle.BeginDict();
    for (const auto& [slot, tensor] : parameter.slots) RETURN_IF_ERROR(draft.Add(slot, tensor));
    pickle.EndDict();
  }
  pickle.EndDict();
  pickle.String("param_groups");
  pickle.BeginList();
  for (const auto& group : optimizer.groups) {
    pickle.BeginDict();
    for (const auto& [key, value] : group) {
      pickle.String(key);
      AppendTorchValue(value, pickle);
    }
    pickle.EndDict();
  }
  pickle.EndList();
  pickle.EndDict();
  pickle.EndDict();
  return absl::OkStatus();
}

void AddTimestamp(const std::string& saved, PickleWriter& pickle) {
  pickle.String("timestamp");
  pickle.BeginDict();
  pickle.String("Timestamp");
  pickle.BeginDict();
  const Json json = ParseJson(saved);
  for (const auto& [key, value] : json.items()) {
    pickle.String(key);
    value.is_number_integer() ? pickle.Int(value) : pickle.TimeSpan(absl::Seconds(value.get<double>()));
  }
  pickle.EndDict();
  pickle.EndDict();
}

// torch's GradScaler, with the settings that ours has, too.
void AddScaler(const std::string& saved, PickleWriter& pickle) {
  const Json json = ParseJson(saved);
  pickle.String("scaler");
  pickle.BeginDict();
  pickle.String("ClosureGradScaler");
  pickle.BeginDict();
  const std::pair<const char*, Json> values[] = {{"scale", json.at("scale").get<double>()},
                                                 {"growth_factor", 2.0},
                                                 {"backoff_factor", 0.5},
                                                 {"growth_interval", 2000},
                                                 {"_growth_tracker", json.at("good_steps")}};
  for (const auto& [key, value] : values) {
    pickle.String(key);
    AppendTorchValue(value.dump(), pickle);
  }
  pickle.EndDict();
  pickle.EndDict();
}

absl::Status AddModel(const StateDict& state, const ComposerExportOptions& options, Draft& draft) {
  ASSIGN_OR_RETURN(const auto model, ModelForTorch(state, options));
  draft.pickle.String("model");
  draft.pickle.BeginDict();
  for (const auto& [name, tensor] : model) RETURN_IF_ERROR(draft.Add(name, tensor));
  draft.pickle.EndDict();
  return absl::OkStatus();
}

absl::Status AddProgress(const Manifest& manifest, const StateDict& state, const ComposerExportOptions& options,
                         Draft& draft) {
  const auto small = [&](const char* key) {
    const auto found = state.small.find(key);
    return found == state.small.end() ? std::string() : found->second;
  };
  ASSIGN_OR_RETURN(const TorchOptimizer optimizer, ReadTorchOptimizer(state, options.renames));
  RETURN_IF_ERROR(AddOptimizerState(optimizer, draft));
  AddTimestamp(small("timestamp"), draft.pickle);
  if (!small("scaler").empty()) AddScaler(small("scaler"), draft.pickle);
  draft.pickle.String("rank_zero_seed");
  draft.pickle.Int(ParseJson(small("data")).at("seed"));
  draft.pickle.String("run_name");
  draft.pickle.String(manifest.run_name);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<std::pair<std::string, at::Tensor>>> ModelForTorch(const StateDict& state,
                                                                              const ComposerExportOptions& options) {
  std::vector<std::pair<std::string, at::Tensor>> model;
  std::vector<std::string> before, after;
  for (const auto& [full, tensor] : state.tensors) {
    absl::string_view name = full;
    if (!absl::ConsumePrefix(&name, kModelPrefix)) continue;
    before.emplace_back(name);
    after.push_back(Renamed(name, options.renames));
    const bool converts = options.weights_only && options.dtype.has_value() && tensor.is_floating_point();
    model.emplace_back(after.back(), converts ? tensor.to(*options.dtype) : tensor);
  }
  if (before.empty()) return absl::InvalidArgumentError("it has no tensors of a model (`model/…`)");
  RETURN_IF_ERROR(CheckRenamed(before, after, options.renames));
  return model;
}

std::vector<std::string> NotesOfExport(const StateDict& state, bool weights_only) {
  std::set<std::string> notes;
  for (const auto& [key, json] : state.small) {
    absl::string_view name = key;
    if (!weights_only && absl::ConsumePrefix(&name, "algorithms/"))
      notes.insert(absl::StrCat("the state of the algorithm ", name, " was left out"));
  }
  return {notes.begin(), notes.end()};
}

absl::StatusOr<std::vector<std::string>> ExportForComposer(ObjectStore& from, const std::string& checkpoint,
                                                           const std::string& path,
                                                           const ComposerExportOptions& options) try {
  const at::NoGradGuard no_grad;
  if (!options.overwrite && PathExists(path)) return absl::AlreadyExistsError(absl::StrCat(path, " is there"));
  ASSIGN_OR_RETURN(const Manifest manifest, ReadManifest(from, checkpoint));
  ASSIGN_OR_RETURN(const StateDict state, LoadNewStateDict(from, checkpoint));
  Draft draft;
  draft.pickle.BeginDict();
  draft.pickle.String("state");
  draft.pickle.BeginDict();
  RETURN_IF_ERROR(AddModel(state, options, draft));
  if (!options.weights_only) RETURN_IF_ERROR(AddProgress(manifest, state, options, draft));
  draft.pickle.EndDict();
  draft.pickle.EndDict();
  RETURN_IF_ERROR(MakeDirs(DirName(AbsolutePath(path))));
  const std::string pickle = std::move(draft.pickle).Finish();
  const auto write = [&](int fd) { return AppendTorchArchive(fd, path, pickle, draft.storages).status(); };
  ASSIGN_OR_RETURN(const Packing packing, PackingOfName(path));
  RETURN_IF_ERROR(WriteWholeFile(AbsolutePath(path), [&](int fd) {
    return packing.IsNone() ? write(fd) : WritePacked(fd, path, packing, write);
  }));
  return NotesOfExport(state, options.weights_only);
} catch (const Json::exception& error) {
  return absl::DataLossError(absl::StrCat(from.Location(checkpoint), ": ", error.what()));
} catch (const std::exception& error) {  // from torch: out of memory
  return absl::ResourceExhaustedError(absl::StrCat(path, ": ", error.what()));
}

}  // namespace composer
