// Decides which parameters Muon orthogonalises, and which are left to its AdamW.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "trainer/core/optimizer.h"
#include "trainer/optim/param_groups.h"

namespace composer {

struct MuonGroups {
  std::vector<ParamGroup> matrices;
  std::vector<ParamGroup> others;  // for AdamW; may be empty
};

struct MuonGroupOptions {
  double lr = 1e-3;
  double weight_decay = 0.1;
  double adamw_lr = 1e-3;
  double adamw_weight_decay = 1e-2;
  // Matrices whose names match these (fnmatch) go to AdamW: embeddings and output heads. Their rows are looked up or
  // compared one by one, so mixing them is wrong.
  std::vector<std::string> adamw_patterns = {"*embed*", "*emb.weight", "*wte.weight", "*wpe.weight", "*head.weight"};
  bool no_decay_on_bias_and_norm = false;
  std::vector<ParamGroupRule> rules;  // for all parameters, as in ParamGroupOptions
};

// Muon takes the parameters with exactly two dimensions. AdamW gets those of the patterns and all others: biases,
// norms, and convolutions (which are not flattened; torch.optim.Muon, too, takes matrices only). Pure. Returns
// kInvalidArgument like MakeParamGroups, and when no matrix is left for Muon.
absl::StatusOr<MuonGroups> MakeMuonGroups(const NamedTensors& parameters, const MuonGroupOptions& options);

}  // namespace composer
