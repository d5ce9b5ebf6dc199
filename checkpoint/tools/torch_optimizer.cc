// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/tools/torch_optimizer.h"

#include <nlohmann/json.hpp>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "base/format/json.h"
#include "base/status_macros.h"

namespace composer {
namespace {

using Json = nlohmann::json;
using NamedTensors = absl::flat_hash_map<std::string, at::Tensor>;

constexpr absl::string_view kAdamSlots[] = {"exp_avg", "exp_avg_sq", "max_exp_avg_sq"};
constexpr absl::string_view kSgdSlots[] = {"momentum_buffer"};

// Adam's step is one number of the group's. Parameters without state, as SGD's without momentum, are left out, as torch
// does.
absl::Status AddStates(const Json& groups, bool adam, const NamedTensors& tensors, const std::vector<RenameRule>& rules,
                       TorchOptimizer* optimizer) {
  for (size_t g = 0; g < groups.size(); ++g) {
    const std::vector<std::string> names = groups[g].at("params");
    const auto steps = tensors.find(absl::StrCat("optimizer/group", g, "/step"));
    if (adam && (steps == tensors.end() || steps->second.numel() != static_cast<int64_t>(names.size())))
      return absl::DataLossError(absl::StrCat("optimizer/group", g, "/step does not count the group's parameters"));
    for (size_t i = 0; i < names.size(); ++i) {
      TorchOptimizer::Parameter parameter{.name = Renamed(names[i], rules)};
      if (adam) parameter.slots.emplace_back("step", steps->second[static_cast<int64_t>(i)].clone());
      for (const absl::string_view slot : adam ? absl::MakeConstSpan(kAdamSlots) : kSgdSlots) {
        const auto found = tensors.find(absl::StrCat("optimizer/", names[i], "/", slot));
        if (found != tensors.end()) parameter.slots.emplace_back(slot, found->second);
      }
      if (!parameter.slots.empty()) optimizer->parameters.push_back(std::move(parameter));
    }
  }
  return absl::OkStatus();
}

// torch replaces the groups of the optimizer by these, so that they need every key of torch's.
void AddGroups(const Json& groups, bool adam, bool decoupled, const std::vector<RenameRule>& rules,
               TorchOptimizer* optimizer) {
  for (const Json& group : groups) {
    Json values = group;
    values.update({{"maximize", false}, {"foreach", nullptr}, {"differentiable", false}, {"fused", nullptr}});
    if (adam) values.update({{"capturable", false}, {"decoupled_weight_decay", decoupled}});
    for (Json& name : values.at("params")) name = Renamed(name.get<std::string>(), rules);
    auto& added = optimizer->groups.emplace_back();
    for (const auto& [key, value] : values.items()) {
      const bool real = key == "lr" || key == "initial_lr" || key == "weight_decay" || key == "momentum";
      added.emplace_back(key, real ? Json(value.get<double>()).dump() : value.dump());
    }
  }
}

}  // namespace

absl::StatusOr<TorchOptimizer> ReadTorchOptimizer(const StateDict& state, const std::vector<RenameRule>& rules) {
  const auto saved = state.small.find("optimizer");
  if (saved == state.small.end() || saved->second.empty())
    return absl::FailedPreconditionError(
        "it does not say which optimizer made it: it holds the weights only, or an earlier version wrote it; "
        "--weights-only writes the weights");
  const Json json = ParseJson(saved->second);
  TorchOptimizer optimizer{.name = json.at("class")};
  const std::string& name = optimizer.name;
  const bool adam = name == "Adam" || name == "AdamW" || name == "DecoupledAdamW";
  if (!adam && name != "SGD" && name != "DecoupledSGDW") {
    return absl::FailedPreconditionError(absl::StrCat("the state of the optimizer ", name,
                                                      " is not written, only that of SGD, DecoupledSGDW, Adam, "
                                                      "AdamW and DecoupledAdamW; --weights-only writes the weights"));
  }
  const NamedTensors tensors(state.tensors.begin(), state.tensors.end());
  RETURN_IF_ERROR(AddStates(json.at("groups"), adam, tensors, rules, &optimizer));
  AddGroups(json.at("groups"), adam, name != "Adam", rules, &optimizer);
  return optimizer;
}

void AppendTorchValue(const std::string& json, PickleWriter& pickle) {
  const Json value = ParseJson(json);
  if (value.is_boolean()) return pickle.Bool(value);
  if (value.is_number_integer()) return pickle.Int(value);
  if (value.is_number()) return pickle.Float(value);
  if (!value.is_array()) return pickle.None();
  const bool names = value.empty() || value[0].is_string();
  names ? pickle.BeginList() : pickle.BeginTuple();
  for (const Json& item : value) names ? pickle.String(item.get<std::string>()) : pickle.Float(item);
  names ? pickle.EndList() : pickle.EndTuple();
}

}  // namespace composer
