// Makes pictures with the diffusion model of a run, after each evaluation and at the end of training: Images/Sampled
// for the loggers, and {run_folder}/images/sampled-ba<batch>.png, one file with all of them in rows. What has neither 1
// nor 3 channels (latents of a model without an autoencoder) is written as sampled-ba<batch>.safetensors, the tensor
// `samples` [N, channels, H, W], instead. Pictures are of -1 (black) to 1 (white). Source: mosaicml's diffusion
// 0.0.1, LogDiffusionImages.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trainer/core/callback.h"
#include "trainer/models/vision/diffusion_sampling.h"

namespace composer {

// Each rank makes all pictures, since with sharded parameters each must take part; rank 0 writes them. The model is in
// evaluation mode meanwhile, with the algorithms' weights for inference; training is the same with and without it.
// Pictures depend on the model, the seed and their conditions only. Returns kInvalidArgument for a model that is no
// DiffusionModel, or for options that it refuses; kFailedPrecondition without a run folder.
class LogDiffusionImages final : public Callback {
 public:
  struct Options {
    DiffusionSamplingOptions sampling;
    std::vector<int64_t> class_labels;  // of the pictures
    // A safetensors file with `encoder_hidden_states` [N, T, D], `class_labels` [N], or both, of them, and for
    // guidance `negative_encoder_hidden_states` [1, T, D] or [N, T, D]; "": none.
    std::string conditions;
    // Texts for the model's text encoder, by the run's tokenizer; the second is what guidance leads away from, zeros
    // without one. Not with `conditions`.
    std::vector<std::string> prompts;
    std::optional<std::string> negative_prompt;
    int64_t num_images = 8;  // where none of them says how many
  };
  explicit LogDiffusionImages(Options options) : options_(std::move(options)) {}

  std::string name() const override { return "LogDiffusionImages"; }
  EventSet events() const override { return {Event::kEvalAfterAll, Event::kEvalStandaloneEnd, Event::kFitEnd}; }
  absl::Status Run(Event event, State& state, Logger& logger) override;

 private:
  absl::StatusOr<DiffusionCondition> ReadCondition(int64_t* count) const;
  // The prompts' hidden states. A collective with sharding.
  DiffusionCondition EncodePrompts(DiffusionModel& model, const State& state) const;

  Options options_;
  int64_t last_batch_ = -1;  // when pictures were last made
};

}  // namespace composer
