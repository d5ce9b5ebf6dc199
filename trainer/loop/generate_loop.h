// This generates text with a language model: it appends tokens to prompts one by one, under any sharding. It also
// implements Composer's Generate callback.
//
// Prompts are distributed over data-parallel ranks in runs and cut into batches of batch_size. Where parameters are
// gathered for each forward pass (FULL_SHARD), all ranks make the same number of passes: a rank without prompts, or
// whose rows are all done, makes empty passes. With summon_full_params, or a strategy that keeps parameters anyway
// (SHARD_GRAD_OP), parameters are gathered once, and each rank goes at its own pace. A text depends only on the model,
// its prompt and its index among the prompts, except for the rounding of matrix products of other shapes: not on ranks,
// batches or neighbours. No torch generator is read. Sources: mosaicml composer/callbacks/generate.py; transformers
// generation/utils.py (names, meaning, synced_gpus).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "trainer/core/communicator.h"
#include "trainer/core/logger.h"
#include "trainer/core/state.h"
#include "trainer/models/causal_decoder.h"
#include "trainer/models/sampling.h"
#include "trainer/options/generate_options.h"

namespace composer {

using TokenLists = std::vector<std::vector<int64_t>>;

// Returns the model as one that can generate, or kInvalidArgument if it cannot.
absl::StatusOr<CausalDecoder*> DecoderOf(Model& model);
// Checks these options with these prompts on this model. Returns kInvalidArgument naming the field, its value and what
// is allowed.
absl::Status Validate(const GenerateOptions& options, const TokenLists& prompts, const CausalDecoder& decoder);

// A PromptShare has the prompts [begin, end) of one of `ranks` ranks; `most` is the number of the rank that has the
// most.
struct PromptShare {
  size_t begin = 0, end = 0, most = 0;
};
PromptShare ShareOf(size_t prompts, int rank, int ranks);

// Returns the new tokens of each prompt, including an end-of-text token, on every rank. A collective of data_ranks, the
// ranks with other samples. Meanwhile the model is in evaluation mode, with the algorithms' weights for inference (with
// EMA the averages); nothing else of the state changes. Throws what the model throws, and StatusError for what Validate
// rejects.
TokenLists GenerateTokens(const TokenLists& prompts, const GenerateOptions& options, State& state,
                          Communicator& data_ranks);
// Returns the tokens of each prompt, without special ones: by the tokenizer, or by the decoder if it is null.
TokenLists EncodedPrompts(const std::vector<std::string>& prompts, const CausalDecoder& decoder,
                          const Tokenizer* tokenizer);
// Same as GenerateTokens, but with text; end-of-text tokens are left out.
std::vector<std::string> GenerateTexts(const std::vector<std::string>& prompts, const GenerateOptions& options,
                                       State& state, Communicator& data_ranks);

// Generates for prompts that each rank has of its own, any number, with the model as it is; for evaluations. Same
// collectives as above: all data_ranks call it together, with the same options. Returns the texts of this rank's.
std::vector<std::string> GenerateOwnTexts(const TokenLists& prompts, const GenerateOptions& options, State& state,
                                          Communicator& data_ranks);

// Returns whether the callback runs at kBatchCheckpoint, kEpochCheckpoint, kIterationCheckpoint or kFitEnd: its
// interval, in that event's unit, must be over; at kFitEnd it runs unless it just did.
bool GenerateIsDue(const GenerateCallback& callback, Event event, const State& state);
void RunGenerate(GenerateCallback& callback, State& state, Communicator& data_ranks, Logger& logger);

}  // namespace composer
