// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/tools/composer_export.h"

#include <caffe2/serialize/inline_container.h>
#include <fcntl.h>
#include <torch/types.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/file.h"
#include "base/status_macros.h"
#include "checkpoint/folder/verify.h"
#include "checkpoint/format/dtype.h"
#include "checkpoint/load/reader.h"
#include "checkpoint/tools/pickle_writer.h"

namespace composer {
namespace {

using Json = nlohmann::json;

constexpr absl::string_view kAdamSlots[] = {"exp_avg", "exp_avg_sq", "max_exp_avg_sq"};
constexpr absl::string_view kSgdSlots[] = {"momentum_buffer"};

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

using Tensors = absl::flat_hash_map<std::string, at::Tensor>;

// Adds what torch keeps of a parameter: Adam's step is one number of the group's.
absl::Status AddSlots(const std::string& parameter, const at::Tensor& step, bool adam, const Tensors& tensors,
                      Draft& draft) {
  draft.pickle.BeginDict();
  if (adam) RETURN_IF_ERROR(draft.Add("step", step));
  const absl::Span<const absl::string_view> slots = adam ? absl::MakeConstSpan(kAdamSlots) : kSgdSlots;
  for (const absl::string_view slot : slots) {
    const auto found = tensors.find(absl::StrCat("optimizer/", parameter, "/", slot));
    if (found != tensors.end()) RETURN_IF_ERROR(draft.Add(slot, found->second));
  }
  draft.pickle.EndDict();
  return absl::OkStatus();
}

// Parameters without state, as SGD's without momentum, are left out, as torch does.
absl::Status AddStates(const Json& groups, bool adam, const Tensors& tensors, const std::vector<RenameRule>& rules,
                       Draft& draft) {
  draft.pickle.String("state");
  draft.pickle.BeginDict();
  for (size_t g = 0; g < groups.size(); ++g) {
    const std::vector<std::string> names = groups[g].at("params");
    const auto steps = tensors.find(absl::StrCat("optimizer/group", g, "/step"));
    if (adam && (steps == tensors.end() || steps->second.numel() != static_cast<int64_t>(names.size())))
      return absl::DataLossError(absl::StrCat("optimizer/group", g, "/step does not count the group's parameters"));
    for (size_t i = 0; i < names.size(); ++i) {
      if (!adam && !tensors.contains(absl::StrCat("optimizer/", names[i], "/momentum_buffer"))) continue;
      draft.pickle.String(Renamed(names[i], rules));
      const at::Tensor step = adam ? steps->second[static_cast<int64_t>(i)].clone() : at::Tensor();
      RETURN_IF_ERROR(AddSlots(names[i], step, adam, tensors, draft));
    }
  }
  draft.pickle.EndDict();
  return absl::OkStatus();
}

void AddValue(const Json& value, PickleWriter& pickle) {
  if (value.is_boolean()) return pickle.Bool(value);
  if (value.is_number_integer()) return pickle.Int(value);
  if (value.is_number()) return pickle.Float(value);
  if (!value.is_array()) return pickle.None();
  pickle.BeginTuple();  // betas
  for (const Json& item : value) pickle.Float(item);
  pickle.EndTuple();
}

// torch replaces the groups of the optimizer by these, so that they need every key of torch's.
void AddGroups(const Json& groups, bool adam, bool decoupled, const std::vector<RenameRule>& rules,
               PickleWriter& pickle) {
  pickle.String("param_groups");
  pickle.BeginList();
  for (const Json& group : groups) {
    pickle.BeginDict();
    Json values = group;
    values.update({{"maximize", false}, {"foreach", nullptr}, {"differentiable", false}, {"fused", nullptr}});
    if (adam) values.update({{"capturable", false}, {"decoupled_weight_decay", decoupled}});
    for (const auto& [key, value] : values.items()) {
      if (key == "params") continue;
      pickle.String(key);
      const bool real = key == "lr" || key == "initial_lr" || key == "weight_decay" || key == "momentum";
      real ? pickle.Float(value) : AddValue(value, pickle);
    }
    pickle.String("params");
    pickle.BeginList();
    for (const Json& name : group.at("params")) pickle.String(Renamed(name.get<std::string>(), rules));
    pickle.EndList();
    pickle.EndDict();
  }
  pickle.EndList();
}

absl::Status AddOptimizerState(const std::string& saved, const Tensors& tensors, const std::vector<RenameRule>& rules,
                               Draft& draft) {
  const Json optimizer = Json::parse(saved);
  const std::string name = optimizer.at("class");
  const bool adam = name == "Adam" || name == "AdamW" || name == "DecoupledAdamW";
  if (!adam && name != "SGD" && name != "DecoupledSGDW") {
    return absl::FailedPreconditionError(absl::StrCat("the state of the optimizer ", name,
                                                      " is not written, only that of SGD, DecoupledSGDW, Adam, "
                                                      "AdamW and DecoupledAdamW; --weights-only writes the weights"));
  }
  draft.pickle.String("optimizers");
  draft.pickle.BeginDict();
  draft.pickle.String(name);
  draft.pickle.BeginDict();
  RETURN_IF_ERROR(AddStates(optimizer.at("groups"), adam, tensors, rules, draft));
  AddGroups(optimizer.at("groups"), adam, name != "Adam", rules, draft.pickle);
  draft.pickle.EndDict();
  draft.pickle.EndDict();
  return absl::OkStatus();
}

void AddTimestamp(const std::string& saved, PickleWriter& pickle) {
  pickle.String("timestamp");
  pickle.BeginDict();
  pickle.String("Timestamp");
  pickle.BeginDict();
  const Json json = Json::parse(saved);
  for (const auto& [key, value] : json.items()) {
    pickle.String(key);
    value.is_number_integer() ? pickle.Int(value) : pickle.TimeSpan(absl::Seconds(value.get<double>()));
  }
  pickle.EndDict();
  pickle.EndDict();
}

// torch's GradScaler, with the settings that ours has, too.
void AddScaler(const std::string& saved, PickleWriter& pickle) {
  const Json json = Json::parse(saved);
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
    AddValue(value, pickle);
  }
  pickle.EndDict();
  pickle.EndDict();
}

absl::Status AddModel(const StateDict& state, const ComposerExportOptions& options, Draft& draft) {
  std::vector<std::string> before, after;
  draft.pickle.String("model");
  draft.pickle.BeginDict();
  for (const auto& [full, tensor] : state.tensors) {
    absl::string_view name = full;
    if (!absl::ConsumePrefix(&name, kModelPrefix)) continue;
    before.emplace_back(name);
    after.push_back(Renamed(name, options.renames));
    const bool converts = options.weights_only && options.dtype.has_value() && tensor.is_floating_point();
    RETURN_IF_ERROR(draft.Add(after.back(), converts ? tensor.to(*options.dtype) : tensor));
  }
  draft.pickle.EndDict();
  if (before.empty()) return absl::InvalidArgumentError("it has no tensors of a model (`model/…`)");
  return CheckRenamed(before, after, options.renames);
}

absl::Status AddProgress(const Manifest& manifest, const StateDict& state, const ComposerExportOptions& options,
                         Draft& draft) {
  const auto small = [&](const char* key) {
    const auto found = state.small.find(key);
    return found == state.small.end() ? std::string() : found->second;
  };
  const Tensors tensors(state.tensors.begin(), state.tensors.end());
  if (small("optimizer").empty())
    return absl::FailedPreconditionError(
        "it does not say which optimizer made it: it holds the weights only, or an earlier version wrote it; "
        "--weights-only writes the weights");
  RETURN_IF_ERROR(AddOptimizerState(small("optimizer"), tensors, options.renames, draft));
  AddTimestamp(small("timestamp"), draft.pickle);
  if (!small("scaler").empty()) AddScaler(small("scaler"), draft.pickle);
  draft.pickle.String("rank_zero_seed");
  draft.pickle.Int(Json::parse(small("data")).at("seed"));
  draft.pickle.String("run_name");
  draft.pickle.String(manifest.run_name);
  return absl::OkStatus();
}

std::vector<std::string> NotesOf(const StateDict& state, bool weights_only) {
  std::set<std::string> notes;
  for (const auto& [key, json] : state.small) {
    absl::string_view name = key;
    if (!weights_only && absl::ConsumePrefix(&name, "algorithms/"))
      notes.insert(absl::StrCat("the state of the algorithm ", name, " was left out"));
  }
  return {notes.begin(), notes.end()};
}

// torch's own writer makes the archive. It throws, and must not be told of a failed write: its destructor goes on.
absl::Status WriteArchive(const std::string& path, const std::string& pickle, const std::vector<at::Tensor>& storages) {
  const std::string temporary = absl::StrCat(path, ".tmp-", getpid());
  const int fd = open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (fd < 0) return ErrnoStatus(errno, "cannot create", temporary);
  const absl::Cleanup clean = [&] {
    close(fd);
    unlink(temporary.c_str());
  };
  absl::Status status;
  {
    caffe2::serialize::PyTorchStreamWriter writer([&](const void* bytes, size_t size) {
      if (status.ok()) status = WriteAll(fd, {static_cast<const char*>(bytes), size}, temporary);
      return size;
    });
    writer.writeRecord("data.pkl", pickle.data(), pickle.size());
    writer.writeRecord("byteorder", "little", 6);
    for (size_t i = 0; i < storages.size() && status.ok(); ++i)
      writer.writeRecord(absl::StrCat("data/", i), storages[i].data_ptr(), storages[i].nbytes());
    writer.writeEndOfFile();
  }
  RETURN_IF_ERROR(status);
  if (fsync(fd) != 0) return ErrnoStatus(errno, "cannot sync", temporary);
  if (rename(temporary.c_str(), path.c_str()) != 0) return ErrnoStatus(errno, "cannot rename to", path);
  return SyncDir(DirName(path));
}

}  // namespace

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
  RETURN_IF_ERROR(WriteArchive(AbsolutePath(path), std::move(draft.pickle).Finish(), draft.storages));
  return NotesOf(state, options.weights_only);
} catch (const Json::exception& error) {
  return absl::DataLossError(absl::StrCat(from.Location(checkpoint), ": ", error.what()));
} catch (const std::exception& error) {  // from torch: out of memory
  return absl::ResourceExhaustedError(absl::StrCat(path, ": ", error.what()));
}

}  // namespace composer
