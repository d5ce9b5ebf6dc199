// StochasticDepth drops the branches of residual blocks in training:
//
//   block    relu(shortcut + branch) with probability 1 - p, else relu(shortcut), without computing the branch; one
//            draw for a microbatch
//   sample   relu(shortcut + m branch), m drawn for each sample: 1 with probability 1 - p, else 0
//
// In evaluation the branch is multiplied by 1 - p. Of L blocks the l-th (from 1) has p = drop_rate l / L (linear) or
// p = drop_rate (uniform). With drop_warmup, only for `block`, drop_rate grows from 0 over that part of the run. Blocks
// are found by their ResidualSum (layers/residual_sum.h); what a step drops follows from seed, rank, batch and
// microbatch. Logs stochastic_depth/num_stochastic_layers, and stochastic_depth/drop_rate with drop_warmup.
//
// Source: Huang et al. 2016, arXiv:1603.09382; mosaicml composer/algorithms/stochastic_depth, whose blocks are
// torchvision's Bottleneck and whose runs cannot be resumed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "trainer/core/callback.h"
#include "trainer/layers/residual_sum.h"

namespace composer {

struct StochasticDepthOptions {
  std::string target_layer_name;  // the kind of block: "ResNetBasicBlock"
  bool by_sample = false;         // stochastic_method: sample instead of block
  double drop_rate = 0.2;         // 0 to 1
  bool linear = true;             // drop_distribution: linear instead of uniform
  double drop_warmup = 0;         // a part of the run, 0 to 1
};

// Returns kInvalidArgument that names the field, its value and its range.
absl::Status Validate(const StochasticDepthOptions& options);

// Returns p of block `index` (from 0) of `count`.
double DropRate(const StochasticDepthOptions& options, double drop_rate, size_t index, size_t count);

class StochasticSum final : public torch::nn::Module, public ResidualSum {
 public:
  StochasticSum(std::string block, bool by_sample, double drop_rate)
      : block_(std::move(block)), by_sample_(by_sample), drop_rate_(drop_rate) {}
  // Draws by torch's generator in training.
  at::Tensor forward(Part branch, Part shortcut) override;
  const std::string& block() const override { return block_; }
  void SetDropRate(double drop_rate) { drop_rate_ = drop_rate; }
  double drop_rate() const { return drop_rate_; }

 private:
  std::string block_;
  bool by_sample_;
  double drop_rate_;
};

class StochasticDepth final : public Algorithm {
 public:
  explicit StochasticDepth(StochasticDepthOptions options) : options_(std::move(options)) {}
  std::string name() const override { return "StochasticDepth"; }
  // Before the batch is there, since SelectiveBackprop runs the model as soon as it is.
  EventSet events() const override { return {Event::kInit, Event::kBeforeDataloader}; }
  bool Match(Event event, const State& state) const override;
  absl::Status ChangeModel(Model& model, const ModelContext& context) override;
  absl::Status Apply(Event event, State& state, Logger& logger) override;
  bool find_unused_parameters() const override { return !options_.by_sample; }
  bool required_on_load() const override { return true; }

 private:
  StochasticDepthOptions options_;
};

}  // namespace composer
