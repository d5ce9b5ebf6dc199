// Text from a language model: tokens appended to prompts one by one, under any sharding, and Composer's Generate callback.
//
// Prompts are dealt out over data-parallel ranks in runs and cut into batches of batch_size. Where parameters are gathered
// for each forward pass (FULL_SHARD), all ranks make the same number of passes: one without prompts, or whose rows are
// all done, goes through the motions. With summon_full_params, or a strategy that keeps parameters anyway
// (SHARD_GRAD_OP), they are gathered once, and each rank goes at its own pace.
// A text depends on the model, its prompt and its number among the prompts only, except for the rounding of matrix
// products of other shapes: not on ranks, batches or neighbours. No generator of torch is read.
// Sources: mosaicml composer/callbacks/generate.py; transformers generation/utils.py (names, meaning, synced_gpus).
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

// The model as one that can be generated from. kInvalidArgument: it is none.
absl::StatusOr<CausalDecoder*> DecoderOf(Model& model);
// Of these options with these prompts on this model: kInvalidArgument naming the field, its value and what is allowed.
absl::Status Validate(const GenerateOptions& options, const TokenLists& prompts, const CausalDecoder& decoder);

// The prompts [begin, end) that a rank of `ranks` has; `most`: of the rank that has the most.
struct PromptShare {
  size_t begin = 0, end = 0, most = 0;
};
PromptShare ShareOf(size_t prompts, int rank, int ranks);

// New tokens by prompt, an end-of-text token included, on every rank. A collective of data_ranks, those that have other
// samples. The model is in evaluation mode meanwhile, with the weights that algorithms would have one use (of EMA the
// averages); nothing else of the state changes. Throws what the model throws,
// StatusError for what Validate refuses.
TokenLists GenerateTokens(const TokenLists& prompts, const GenerateOptions& options, State& state,
                          Communicator& data_ranks);
// The same as text; end-of-text tokens are left out.
std::vector<std::string> GenerateTexts(const std::vector<std::string>& prompts, const GenerateOptions& options,
                                       State& state, Communicator& data_ranks);

// At kBatchCheckpoint, kEpochCheckpoint, kIterationCheckpoint or kFitEnd: is its interval, in that event's unit, over? At
// kFitEnd: unless it just ran.
bool GenerateIsDue(const GenerateCallback& callback, Event event, const State& state);
void RunGenerate(GenerateCallback& callback, State& state, Communicator& data_ranks, Logger& logger);

}  // namespace composer
