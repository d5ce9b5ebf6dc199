// SPDX-License-Identifier: Apache-2.0
#include "trainer/loop/answer_prompts.h"

#include <torch/types.h>

#include "data/icl/answer_match.h"
#include "trainer/core/model_sharding.h"
#include "trainer/loop/generate_loop.h"

namespace composer {
namespace {

// Returns each row's tokens without padding.
TokenLists PromptsIn(const Batch& batch) {
  TokenLists prompts;
  for (int64_t row = 0; row < batch.num_samples; ++row) {
    const at::Tensor counts = batch.Get("attention_mask")[row].ne(0);
    const at::Tensor tokens = batch.inputs[row].masked_select(counts).to(at::kCPU, at::kLong).contiguous();
    const auto* begin = static_cast<const int64_t*>(tokens.const_data_ptr());
    prompts.emplace_back(begin, begin + tokens.numel());
  }
  return prompts;
}

}  // namespace

const PromptDataset* PromptsOf(const Evaluator& evaluator) {
  return dynamic_cast<const PromptDataset*>(&evaluator.loader->dataset());
}

void AnswerPrompts(const PromptDataset& data, State& state, Communicator& communicator) {
  state.outputs = at::Tensor();
  state.batch.texts[kGenerationsKey] =
      GenerateOwnTexts(PromptsIn(state.batch), data.generate_options(), state, communicator);
}

void SkipEvalForward(const Evaluator& evaluator, State& state, Communicator& communicator) {
  if (state.sharding == nullptr) return;
  if (const PromptDataset* prompts = PromptsOf(evaluator)) {
    GenerateOwnTexts({}, prompts->generate_options(), state, communicator);
  } else {
    state.sharding->SkipForward();
  }
}

}  // namespace composer
