// SPDX-License-Identifier: Apache-2.0
#include "trainer/optim/param_groups.h"

#include <fnmatch.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace composer {
namespace {

absl::Status CheckValue(absl::string_view field, double value) {
  if (value >= 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(field, ": ", value, ", must be >= 0"));
}

absl::Status Check(const NamedTensors& parameters, const ParamGroupOptions& options) {
  RETURN_IF_ERROR(CheckValue("lr", options.lr));
  RETURN_IF_ERROR(CheckValue("weight_decay", options.weight_decay));
  for (const ParamGroupRule& rule : options.rules) {
    RETURN_IF_ERROR(CheckValue(absl::StrCat("lr of `", rule.pattern, "`"), rule.lr.value_or(0)));
    RETURN_IF_ERROR(CheckValue(absl::StrCat("weight_decay of `", rule.pattern, "`"), rule.weight_decay.value_or(0)));
    const auto matches = [&](const auto& parameter) { return NameMatches(rule.pattern, parameter.first); };
    if (std::none_of(parameters.begin(), parameters.end(), matches)) {
      return absl::InvalidArgumentError(absl::StrCat("pattern `", rule.pattern,
                                                     "` matches no parameter; the first is `",
                                                     parameters.empty() ? "" : parameters[0].first, "`"));
    }
  }
  return absl::OkStatus();
}

// Returns a group without parameters that has the values for this parameter.
ParamGroup ValuesFor(const std::string& name, const at::Tensor& param, const ParamGroupOptions& options) {
  ParamGroup group;
  group.initial_lr = options.lr;
  group.weight_decay = options.no_decay_on_bias_and_norm && param.dim() <= 1 ? 0 : options.weight_decay;
  const auto rule = std::find_if(options.rules.begin(), options.rules.end(),
                                 [&](const ParamGroupRule& candidate) { return NameMatches(candidate.pattern, name); });
  if (rule != options.rules.end()) {
    group.initial_lr = rule->lr.value_or(group.initial_lr);
    group.weight_decay = rule->weight_decay.value_or(group.weight_decay);
  }
  group.lr = group.initial_lr;
  return group;
}

}  // namespace

bool NameMatches(const std::string& pattern, const std::string& name) {
  return fnmatch(pattern.c_str(), name.c_str(), FNM_NOESCAPE) == 0;
}

absl::StatusOr<std::vector<ParamGroup>> MakeParamGroups(const NamedTensors& parameters,
                                                        const ParamGroupOptions& options) {
  RETURN_IF_ERROR(Check(parameters, options));
  std::vector<ParamGroup> groups;
  for (const auto& [name, param] : parameters) {
    if (!param.requires_grad()) continue;
    const ParamGroup values = ValuesFor(name, param, options);
    const auto same = [&values, &tensor = param](const ParamGroup& group) {
      return group.initial_lr == values.initial_lr && group.weight_decay == values.weight_decay &&
             group.params[0].scalar_type() == tensor.scalar_type() && group.params[0].device() == tensor.device();
    };
    auto group = std::find_if(groups.begin(), groups.end(), same);
    if (group == groups.end()) group = groups.insert(groups.end(), values);
    group->params.push_back(param);
    group->names.push_back(name);
  }
  if (groups.empty()) return absl::InvalidArgumentError("the model has no parameter that needs a gradient");
  return groups;
}

}  // namespace composer
