// AmpFp8 is what `precision: amp_fp8` adds to a run: it has linear layers compute in 8 bits (layers/fp8_linear.h), the
// rest of the step being amp_bf16's, and keeps their histories of amaxes. The trainer adds it; evaluations compute in
// bfloat16, as mosaicml's do.
//
// It replaces the LinearLayers of a model, but not
//   those that the model holds itself, without a module between (lm_head): its head;
//   those that the recipe excludes, and those whose sizes are not multiples of 16;
//   layers of other classes, such as Conv1d, LoRA's and products with tied embeddings.
// A line says how many stay and why.
//
// Histories are in checkpoints as `algorithms/AmpFp8/amax_history`, not among the model's tensors, so that weights go
// from one precision to another. They are the same on all ranks, whose amaxes are gathered at the end of each step in a
// collective for which the host does not wait. With another number of ranks, and after other layers were excluded, a
// run takes over what still applies.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "trainer/core/callback.h"
#include "trainer/core/communicator.h"
#include "trainer/layers/fp8_scaling.h"

namespace composer {

class AmpFp8 final : public Algorithm {
 public:
  // The communicator is that of all ranks, and must outlive this.
  AmpFp8(Fp8Recipe recipe, Communicator& ranks) : recipe_(std::move(recipe)), ranks_(ranks) {}

  std::string name() const override { return "AmpFp8"; }
  EventSet events() const override { return {Event::kInit, Event::kFitStart, Event::kBatchEnd}; }
  bool Match(Event event, const State& state) const override { return true; }
  // At INIT it is kInvalidArgument when the device has no products in 8 bits.
  absl::Status Apply(Event event, State& state, Logger& logger) override;
  // Returns kInvalidArgument naming the text of `exclude` that chooses nothing.
  absl::Status ChangeModel(Model& model, const ModelContext& context) override;

  std::vector<KeptTensor> tensors() const override;
  absl::Status PrepareLoad(absl::string_view json) override;
  std::string SaveState() const override;
  absl::Status LoadState(absl::string_view json) override;

 private:
  absl::Status Start(const State& state, Logger& logger);
  void EndStep();

  Fp8Recipe recipe_;
  Communicator& ranks_;
  std::vector<std::string> left_;           // the layers of the last changed model that stay, with reasons
  c10::intrusive_ptr<Fp8Scaling> scaling_;  // the run's model's; null before INIT and when no layer is replaced
  bool has_history_ = false;                // a step was made
  std::vector<std::string> saved_layers_;   // while a checkpoint is loaded
  at::Tensor saved_history_;                // likewise
};

}  // namespace composer
