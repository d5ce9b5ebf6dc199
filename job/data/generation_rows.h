// How texts are generated, by the names of Hugging Face's GenerationConfig: of the callback `generate`, and of an
// in-context task's `generation_kwargs`.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "config/config_map.h"
#include "trainer/options/generate_options.h"

namespace composer {

// Reads eos_token_id, use_cache, do_sample, temperature, top_k, top_p, seed, repetition_penalty, no_repeat_ngram_size,
// min_new_tokens, num_beams, length_penalty and early_stopping over what `options` has; `seed` is used where none is
// given. options.max_new_tokens must be known, and stop_strings. Errors go to the reader.
void ReadGenerationKwargs(ConfigMap& config, uint64_t seed, GenerateOptions& options);

}  // namespace composer
