// These options say how text is generated from a language model, and when the trainer does so (Composer's Generate
// callback). Names and defaults are those of Hugging Face's GenerationConfig unless noted.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/time.h"

namespace composer {

struct SamplingOptions {
  bool do_sample = false;  // false: take the likeliest token, the first of equals; the fields below are ignored
  double temperature = 1;  // > 0; logits are divided by it
  int64_t top_k = 50;      // keep only this many of the likeliest tokens, and ties with the last of them; 0: all
  double top_p = 1;        // (0, 1]: of these, keep the likeliest until their probabilities reach this sum
  uint64_t seed = 0;
};

struct GenerateOptions {
  int64_t max_new_tokens = 20;        // prompt and new tokens must fit the model's context, which does not slide
  std::vector<int64_t> eos_token_id;  // each of these ends a row; if empty, only max_new_tokens does
  SamplingOptions sampling;
  int64_t batch_size = 0;  // prompts per forward pass on a rank; 0: all
  bool use_cache = true;   // if false or not supported by the model, every token is recomputed from all before it
  // If true, every rank holds the whole model meanwhile (torch's FSDP.summon_full_params), instead of one unit at a
  // time.
  bool summon_full_params = false;
};

// Composer's Generate callback: it logs the table `generations` of prompt and generation at an interval and at the end
// of training. Like evaluation it is part of the loop, since its time is not training time.
struct GenerateCallback {
  std::vector<std::string> prompts;
  Time interval;  // count 0: only at the end
  GenerateOptions options;
  int64_t last_batch = -1;  // the training's batch when it last ran
};
}  // namespace composer
