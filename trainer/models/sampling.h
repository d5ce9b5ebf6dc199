// Chooses the next token as a pure function of logits, options and a random number that is itself a function of where
// it is used. A text therefore depends only on its prompt and the prompt's index, not on batches, ranks or restarts.
// Names and meanings are those of Hugging Face's GenerationConfig and logits warpers (transformers
// generation/logits_process.py).
// Golden: tests/golden/generation.json.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "trainer/options/generate_options.h"

namespace composer {

// Returns kInvalidArgument that names the field, its value and what is allowed.
absl::Status Validate(const SamplingOptions& options);

// Returns softmax(logits / temperature) over the tokens that top_k and then top_p keep, and 0 for others; the sum is 1.
// A logit that is not finite counts as -inf; when none is finite, token 0 gets probability 1.
std::vector<double> TokenProbabilities(absl::Span<const float> logits, const SamplingOptions& options);

// uniform is in [0, 1). With do_sample, returns the first token at which the cumulative probability, in token order,
// exceeds it.
int64_t ChooseToken(absl::Span<const float> logits, const SamplingOptions& options, double uniform);

// Returns the uniform number of new token `place` (0, 1, …) of prompt `sample`.
double TokenUniform(uint64_t seed, uint64_t sample, uint64_t place);

}  // namespace composer
