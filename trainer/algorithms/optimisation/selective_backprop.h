// SelectiveBackprop trains only on those samples of a batch that the model finds hard: in a part of the run it makes a
// forward pass without gradients over the rank's batch, keeps a part of the samples, drawn by the rank of their losses,
// and drops the others before the step. Clocks count all samples; the loss is the mean over those that are left.
//
// Needs a model with a loss by sample (Model::sample_losses). Not with determinism: elastic. Source: Jiang et al. 2019,
// arXiv:1910.00762; mosaicml composer/algorithms/selective_backprop/selective_backprop.py.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "trainer/core/callback.h"

namespace composer {

// The names and defaults are Composer's.
struct SelectiveBackpropOptions {
  double start = 0.5;         // from this part of the run, 0 to 1
  double end = 0.9;           // to this part, start to 1
  double keep = 0.5;          // the part of the samples that stays, above 0 up to 1
  double scale_factor = 1.0;  // images are made smaller by it for the first pass, above 0 up to 1
  int64_t interrupt = 2;      // every so many batches one is whole; 0: none
};

// Returns kInvalidArgument that names the field, its value and its range.
absl::Status Validate(const SelectiveBackpropOptions& options);

// Returns whether the batch with this index in its epoch is pruned, at this part of the run.
bool IsPruned(const SelectiveBackpropOptions& options, double elapsed, int64_t batch_in_epoch);

// Returns floor(keep * B) different indices of samples [B], drawn without replacement: the sample with the k-th
// smallest loss has weight ((k + 0.5) / B)^(1 / keep - 1). `uniform` returns that many numbers in [0, 1). As numpy's
// random.choice with the same numbers.
std::vector<int64_t> SelectByLoss(const std::vector<double>& losses, double keep,
                                  const std::function<std::vector<double>(int64_t)>& uniform);

class SelectiveBackprop final : public Algorithm {
 public:
  explicit SelectiveBackprop(const SelectiveBackpropOptions& options) : options_(options) {}
  std::string name() const override { return "SelectiveBackprop"; }
  EventSet events() const override { return {Event::kAfterDataloader}; }
  bool Match(Event event, const State& state) const override;
  absl::Status Apply(Event event, State& state, Logger& logger) override;

 private:
  at::Tensor Losses(State& state) const;

  SelectiveBackpropOptions options_;
};

}  // namespace composer
