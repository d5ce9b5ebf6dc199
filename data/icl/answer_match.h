// Whether a text that a model has written answers a question, as llm-foundry decides it
// (llmfoundry/eval/metrics/nlp.py, InContextLearningGenerationExactMatchAccuracy). Golden: tests/golden/icl.json.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace composer {

// The key of a batch's texts under which the text that a model has written for each sample is found, and the key of the
// right answers, each a list of texts in JSON.
inline constexpr char kGenerationsKey[] = "generations";
inline constexpr char kAnswersKey[] = "answers";

struct AnswerMatchOptions {
  // The text counts up to the first of these. They are plain texts; llm-foundry takes them as regular expressions.
  std::vector<std::string> early_stopping_criteria;
  std::string cot_delimiter;     // what counts of that is behind the last of these; "": all
  bool do_normalization = true;  // compare NormalizedAnswer of both; else they lose the spaces around them
};

// Returns the text in lower case, without ASCII's punctuation and the marks ‘ ’ ´ `, without the words a, an and the,
// and with single spaces between words. Source: TriviaQA's triviaqa_evaluation.py.
std::string NormalizedAnswer(absl::string_view text);

// Returns what of a text counts.
absl::string_view AnswerIn(absl::string_view text, const AnswerMatchOptions& options);

// Returns what stands between spaces, as Python's str.split.
std::vector<absl::string_view> WordsOf(absl::string_view text);

// Returns whether AnswerIn, normalised, begins with one of the answers. An answer that normalisation leaves
// nothing of ("The") is the beginning of every text, as in llm-foundry.
bool IsRightAnswer(absl::string_view text, const std::vector<std::string>& answers, const AnswerMatchOptions& options);

}  // namespace composer
