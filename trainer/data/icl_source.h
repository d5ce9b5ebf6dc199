// The questions of an in-context task (data/icl) as samples: one for each choice of each question.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "data/icl/icl_task.h"
#include "trainer/core/dataset.h"
#include "trainer/core/tokenizer.h"
#include "trainer/options/generate_options.h"

namespace composer {

// Data whose samples are questions that a language model answers in its own words: an evaluation on it generates texts
// (loop/eval_loop.h) instead of calling eval_forward, and puts them into Batch::texts under kGenerationsKey. Batches
// have the prompts' tokens as `inputs` int64 [B, T], and `attention_mask` [B, T], 0 for padding.
class PromptDataset : public Dataset {
 public:
  // The same on all ranks.
  virtual const GenerateOptions& generate_options() const = 0;
};

// Samples have `inputs` int64 [T], T <= max_seq_len: preamble, with the tokenizer's special tokens, context and choice,
// whose tokens are cut at the beginning where they are too many; and `icl` int64 [6], what metrics/icl_accuracy.h
// needs: the choice's tokens are [begin, end); question, choice, the number of choices, the right one. Where " a" is
// one token, a choice gets a space in front. There are no targets. kInvalidArgument: no tokenizer, or what
// IclTask::Open says. Not for kGeneration.
absl::StatusOr<std::shared_ptr<const SampleSource>> OpenIclTask(const IclTaskOptions& options, int64_t max_seq_len,
                                                                std::shared_ptr<const Tokenizer> tokenizer);

// The questions of a task of kGeneration: samples have `inputs` int64 [T], T <= max_seq_len - N, cut at the beginning
// as above, and `answers`. Texts are made as `generate` says, of at most N tokens, up to one of its eos_token_id (the
// tokenizer's end-of-text token if it has none) or stop_strings; its max_new_tokens is not read. N is the number of
// tokens of the longest right answer with its chain of thought and the tokenizer's special tokens, and 10 more with a
// cot_delimiter, as in llm-foundry. kInvalidArgument, beside the above: the tokenizer has no end-of-text token,
// max_seq_len is not above N, or generate's min_new_tokens is.
absl::StatusOr<std::shared_ptr<const PromptDataset>> OpenIclPrompts(const IclTaskOptions& options,
                                                                    GenerateOptions generate, int64_t max_seq_len,
                                                                    std::shared_ptr<const Tokenizer> tokenizer);

}  // namespace composer
