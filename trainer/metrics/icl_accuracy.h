// The accuracies of in-context tasks, of batches that data/icl_source.h makes. Names and values are llm-foundry's
// (llmfoundry/eval/metrics/nlp.py), however the data is batched and spread over ranks.
// Golden: tests/golden/icl.json.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "data/icl/answer_match.h"
#include "trainer/core/metric.h"

namespace composer {

// "InContextLearningLMAccuracy": the share of the questions whose answer's tokens are all the likeliest ones, given
// those before them. outputs: whole logits [B, T, vocab], as the next metric's.
std::unique_ptr<Metric> MakeIclLmAccuracy();
// "InContextLearningMultipleChoiceAccuracy": the share of the questions whose right choice (of answers, or of contexts
// before the same answer) gives the lowest perplexity
// by token; of equal ones the first counts. A question of which not all choices were seen, where a subset of the
// batches ends, is left out.
std::unique_ptr<Metric> MakeIclMultipleChoiceAccuracy();
// "InContextLearningGenerationExactMatchAccuracy": the share of the questions whose text of `generations` is right
// (data/icl/answer_match.h), given `answers`, of batches that an evaluation on a PromptDataset makes.
std::unique_ptr<Metric> MakeIclGenerationAccuracy(AnswerMatchOptions options = {});

}  // namespace composer
