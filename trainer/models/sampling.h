// Which token comes next: a pure function of logits, options and a random number that is itself a function of where it is
// used. So a text depends on its prompt and its number among the prompts only, not on batches, ranks or restarts.
// Names and meaning as Hugging Face's GenerationConfig and logits warpers (transformers generation/logits_process.py).
// Golden: tests/golden/generation.json.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "trainer/options/generate_options.h"

namespace composer {

// kInvalidArgument naming the field, its value and what is allowed.
absl::Status Validate(const SamplingOptions& options);

// softmax(logits / temperature) over the tokens that top_k and then top_p leave, 0 for others; the sum is 1. A logit
// that is not finite counts as -inf; when none is finite, token 0 has it all.
std::vector<double> TokenProbabilities(absl::Span<const float> logits, const SamplingOptions& options);

// uniform: in [0, 1). With do_sample the first token at which the probabilities, summed in the order of tokens, are above
// it.
int64_t ChooseToken(absl::Span<const float> logits, const SamplingOptions& options, double uniform);

// The uniform number of new token `place` (0, 1, …) of prompt `sample`.
double TokenUniform(uint64_t seed, uint64_t sample, uint64_t place);

}  // namespace composer
