// Splits a model's parameters into the groups of an optimizer.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "trainer/core/optimizer.h"

namespace composer {

// Matches like fnmatch(3): `*` also matches dots.
bool NameMatches(const std::string& pattern, const std::string& name);

// Parameters whose names match get these values instead of the optimizer's.
struct ParamGroupRule {
  std::string pattern;  // of the parameter's name: "head.*", "*.bias"
  std::optional<double> lr;
  std::optional<double> weight_decay;
};

struct ParamGroupOptions {
  double lr = 1e-3;            // > 0 in practice; >= 0 allowed
  double weight_decay = 1e-5;  // >= 0
  // Sets weight_decay to 0 for parameters of at most one dimension: biases and the scales of normalisations.
  bool no_decay_on_bias_and_norm = false;
  std::vector<ParamGroupRule> rules;  // the first that matches wins; it also wins over no_decay_on_bias_and_norm
};

// Returns groups of equal (lr, weight_decay, dtype, device), in the order of their first parameter. Parameters keep the
// model's order; those that need no gradient are left out. Pure. Returns kInvalidArgument for a negative value, a rule
// that matches nothing, or when no parameter is left.
absl::StatusOr<std::vector<ParamGroup>> MakeParamGroups(const NamedTensors& parameters,
                                                        const ParamGroupOptions& options);

}  // namespace composer
