// SPDX-License-Identifier: Apache-2.0
#include "trainer/optim/muon_groups.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"

namespace composer {
namespace {

// Keeps the rules that match something in this part; the others concern the other part.
ParamGroupOptions OptionsFor(const NamedTensors& part, const MuonGroupOptions& options, double lr, double decay) {
  ParamGroupOptions result;
  result.lr = lr;
  result.weight_decay = decay;
  result.no_decay_on_bias_and_norm = options.no_decay_on_bias_and_norm;
  for (const ParamGroupRule& rule : options.rules) {
    if (std::any_of(part.begin(), part.end(),
                    [&](const auto& item) { return NameMatches(rule.pattern, item.first); })) {
      result.rules.push_back(rule);
    }
  }
  return result;
}

}  // namespace

absl::StatusOr<MuonGroups> MakeMuonGroups(const NamedTensors& parameters, const MuonGroupOptions& options) {
  ParamGroupOptions all{options.lr, options.weight_decay, options.no_decay_on_bias_and_norm, options.rules};
  RETURN_IF_ERROR(MakeParamGroups(parameters, all).status());
  NamedTensors matrices, others;
  for (const auto& item : parameters) {
    if (!item.second.requires_grad()) continue;
    const auto named = [&name = item.first](const std::string& pattern) { return NameMatches(pattern, name); };
    const bool excluded = std::any_of(options.adamw_patterns.begin(), options.adamw_patterns.end(), named);
    (item.second.dim() == 2 && !excluded ? matrices : others).push_back(item);
  }
  if (matrices.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("muon: no parameter is a matrix, but for those of the adamw patterns ",
                     absl::StrJoin(options.adamw_patterns, ", "), "; use adamw"));
  }
  MuonGroups groups;
  ASSIGN_OR_RETURN(groups.matrices,
                   MakeParamGroups(matrices, OptionsFor(matrices, options, options.lr, options.weight_decay)));
  if (others.empty()) return groups;
  ASSIGN_OR_RETURN(groups.others,
                   MakeParamGroups(others, OptionsFor(others, options, options.adamw_lr, options.adamw_weight_decay)));
  return groups;
}

}  // namespace composer
