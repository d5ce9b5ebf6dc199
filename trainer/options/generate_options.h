// How text is generated from a language model, and when the trainer does so (Composer's Generate callback).
// Names and defaults as Hugging Face's GenerationConfig unless said.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/time.h"

namespace composer {

struct SamplingOptions {
  bool do_sample = false;  // false: the likeliest token, the first of equals; nothing below counts then
  double temperature = 1;  // > 0: logits are divided by it
  int64_t top_k = 50;      // only so many of the likeliest tokens, and those equal to the last of them; 0: all
  double top_p = 1;        // (0, 1]: of these, the likeliest until their probabilities make this much
  uint64_t seed = 0;
};

struct GenerateOptions {
  int64_t max_new_tokens = 20;        // with the prompt no more than the model's context: nothing slides
  std::vector<int64_t> eos_token_id;  // any of these ends a row; none: only max_new_tokens does
  SamplingOptions sampling;
  int64_t batch_size = 0;  // prompts of a forward pass on a rank; 0: all
  bool use_cache = true;   // false, or a model without: every token is computed from all before it
  // The whole model on every rank meanwhile (torch's FSDP.summon_full_params), instead of a unit at a time.
  bool summon_full_params = false;
};

// Composer's Generate callback: logs the table `generations` of prompt and generation every so often and at the end of
// training. It is part of the loop, as evaluation is, since its time is no training time.
struct GenerateCallback {
  std::vector<std::string> prompts;
  Time interval;  // count 0: only at the end
  GenerateOptions options;
  int64_t last_batch = -1;  // of the training, when it last ran
};
}  // namespace composer
