// SPDX-License-Identifier: Apache-2.0
#include "trainer/resume/load_tensors.h"

#include <algorithm>
#include <map>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "trainer/resume/saved_state.h"

namespace composer {
namespace {

constexpr absl::string_view kPrefix = "algorithms/";

// Maps the key of an algorithm to the names of its tensors.
using Groups = std::map<std::string, std::vector<std::string>>;

Groups GroupTensors(const Manifest& manifest) {
  Groups groups;
  for (const TensorEntry& tensor : manifest.tensors) {
    if (!absl::StartsWith(tensor.name, kPrefix)) continue;
    groups[tensor.name.substr(0, tensor.name.find('/', kPrefix.size()))].push_back(tensor.name);
  }
  return groups;
}

// Maps "algorithms/EMA#2" to "EMA".
std::string NameOf(absl::string_view key) {
  absl::ConsumePrefix(&key, kPrefix);
  return std::string(key.substr(0, key.rfind('#')));
}

std::string PassedOver(const std::string& key, size_t count) {
  return absl::StrCat("algorithm ", NameOf(key), " of the checkpoint is not in this run: its ", count,
                      " tensors are skipped. Weights of the model are loaded as it left them there (EMA: the "
                      "averages, not what was trained on)");
}

}  // namespace

AlgorithmLoadPlan PlanAlgorithmLoad(const std::vector<std::string>& keys, const Manifest& manifest,
                                    const IgnoredKeys& ignore, const AlgorithmSelection& wanted) {
  AlgorithmLoadPlan plan;
  const Groups groups = GroupTensors(manifest);
  const auto ignored = [&](const std::string& name) { return ignore.Has(name); };
  const auto is_wanted = [&](const std::string& key) {
    const auto group = groups.find(key);
    return !wanted.weights_only && !ignored(key) && !Matches(wanted.exclude, NameOf(key)) &&
           (group == groups.end() || std::none_of(group->second.begin(), group->second.end(), ignored));
  };
  for (const std::string& key : keys) {
    const auto state = manifest.small.find(key);
    plan.states.push_back(state != manifest.small.end() && is_wanted(key) ? state->second : "");
  }
  for (const auto& [key, names] : groups) {
    const auto found = std::find(keys.begin(), keys.end(), key);
    const bool taken = found != keys.end() && !plan.states[static_cast<size_t>(found - keys.begin())].empty();
    if (!taken) plan.ignore.push_back(absl::StrCat(key, "/*"));
    if (found == keys.end() && is_wanted(key)) plan.warnings.push_back(PassedOver(key, names.size()));
  }
  return plan;
}

absl::StatusOr<StateDict> LoadTensors(ObjectStore& store, const std::string& checkpoint, const LoadSelection& selection,
                                      const AlgorithmSelection& wanted, ByteExchange* bytes, const State& state,
                                      const std::function<absl::Status(const Manifest&)>& inspect) {
  const auto prepare = [&](const Manifest& manifest, LoadSelection& selected, StateDict& into) -> absl::Status {
    if (inspect != nullptr) RETURN_IF_ERROR(inspect(manifest));
    const std::vector<std::string> keys = AlgorithmKeys(state);
    const AlgorithmLoadPlan plan = PlanAlgorithmLoad(keys, manifest, selected.ignore, wanted);
    for (size_t i = 0; i < keys.size(); ++i)
      RETURN_IF_ERROR(Annotate(state.algorithms[i]->PrepareLoad(plan.states[i]), keys[i]));
    selected.ignore.Add(plan.ignore);
    for (const std::string& warning : plan.warnings) {
      if (state.identity.rank == 0) LOG(WARNING) << store.Location(checkpoint) << ": " << warning;
    }
    into = SavedTensors(state, wanted.weights_only);
    return absl::OkStatus();
  };
  StateDict dict;
  RETURN_IF_ERROR(LoadCheckpoint(store, checkpoint, &dict, selection, bytes, prepare));
  return dict;
}

}  // namespace composer
