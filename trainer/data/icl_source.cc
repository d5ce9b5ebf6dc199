// SPDX-License-Identifier: Apache-2.0
#include "trainer/data/icl_source.h"

#include <torch/types.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "data/icl/answer_match.h"
#include "trainer/data/collators.h"
#include "trainer/data/prepared_dataset.h"

namespace composer {
namespace {

constexpr char kNeedsTokenizer[] = "in-context tasks are texts: give the job the model's `tokenizer`";

// Turns an in-context task's texts into tokens as llm-foundry does.
class IclTokens {
 public:
  explicit IclTokens(std::shared_ptr<const Tokenizer> tokenizer) : tokenizer_(std::move(tokenizer)) {}

  std::vector<int64_t> Plain(const std::string& text) const {
    return tokenizer_->Encode(text, /*add_special_tokens=*/false).ids;
  }
  // What stands before the answer. An end-of-text token does not stand between the examples and the question.
  std::vector<int64_t> Question(const IclTexts& texts) const {
    std::vector<int64_t> tokens = tokenizer_->Encode(texts.preamble, /*add_special_tokens=*/true).ids;
    if (tokens.size() > 1 && tokens.back() == tokenizer_->special_tokens().eos) tokens.pop_back();
    const std::vector<int64_t> context = Plain(texts.context);
    tokens.insert(tokens.end(), context.begin(), context.end());
    return tokens;
  }
  const Tokenizer& tokenizer() const { return *tokenizer_; }

 private:
  std::shared_ptr<const Tokenizer> tokenizer_;
};

class IclSource final : public SampleSource {
 public:
  IclSource(IclTask task, int64_t max_seq_len, std::shared_ptr<const Tokenizer> tokenizer)
      : task_(std::move(task)),
        max_seq_len_(max_seq_len),
        tokens_(std::move(tokenizer)),
        begins_with_space_(tokens_.Plain(" a").size() == 1) {
    for (int64_t question = 0; question < task_.size(); ++question) {
      first_.push_back(rows_);
      rows_ += task_.choices(question);
    }
  }

  int64_t size() const override { return rows_; }

  Sample Get(int64_t index) const override {
    const int64_t question = std::upper_bound(first_.begin(), first_.end(), index) - first_.begin() - 1;
    const int64_t choice = index - first_[static_cast<size_t>(question)];
    const IclTexts texts = task_.Texts(question, choice);
    std::vector<int64_t> tokens = tokens_.Question(texts);
    std::string said = texts.answer;
    if (begins_with_space_ && !absl::StartsWith(said, " ")) said.insert(0, 1, ' ');
    const std::vector<int64_t> answer = tokens_.Plain(said);
    const int64_t room = max_seq_len_ - static_cast<int64_t>(answer.size());
    const int64_t surplus = std::max<int64_t>(static_cast<int64_t>(tokens.size()) - room, 0);
    TORCH_CHECK_VALUE(!answer.empty() && !tokens.empty() && room > 0, "icl_tasks: question ", question, ", choice ",
                      choice, " has ", tokens.size(), " tokens before its answer of ", answer.size(),
                      "; there must be at least one of each within max_seq_len ", max_seq_len_);
    tokens.erase(tokens.begin(), tokens.begin() + surplus);
    const auto begin = static_cast<int64_t>(tokens.size());
    tokens.insert(tokens.end(), answer.begin(), answer.end());
    Sample sample;
    sample.tensors["inputs"] = torch::tensor(tokens, at::kLong);
    sample.tensors["icl"] = torch::tensor(std::vector<int64_t>{begin, static_cast<int64_t>(tokens.size()), question,
                                                               choice, task_.choices(question), texts.gold},
                                          at::kLong);
    return sample;
  }

 private:
  const IclTask task_;
  const int64_t max_seq_len_;
  const IclTokens tokens_;
  const bool begins_with_space_;
  std::vector<int64_t> first_;  // of each question
  int64_t rows_ = 0;
};

class PromptSource final : public SampleSource {
 public:
  PromptSource(IclTask task, std::shared_ptr<const Tokenizer> tokenizer, int64_t most_tokens)
      : task_(std::move(task)), tokens_(std::move(tokenizer)), most_tokens_(most_tokens) {}

  int64_t size() const override { return task_.size(); }

  Sample Get(int64_t index) const override {
    std::vector<int64_t> tokens = tokens_.Question(task_.Texts(index, 0));
    TORCH_CHECK_VALUE(!tokens.empty(), "icl_tasks: question ", index, " has no tokens");
    const int64_t surplus = std::max<int64_t>(static_cast<int64_t>(tokens.size()) - most_tokens_, 0);
    tokens.erase(tokens.begin(), tokens.begin() + surplus);
    Sample sample;
    sample.tensors["inputs"] = torch::tensor(tokens, at::kLong);
    sample.texts[kAnswersKey] = nlohmann::json(task_.Answers(index))
                                    .dump(-1, ' ', /*ensure_ascii=*/true, nlohmann::json::error_handler_t::replace);
    return sample;
  }

 private:
  const IclTask task_;
  const IclTokens tokens_;
  const int64_t most_tokens_;
};

class IclPrompts final : public PromptDataset {
 public:
  IclPrompts(std::shared_ptr<const Dataset> samples, GenerateOptions generate)
      : samples_(std::move(samples)), generate_(std::move(generate)) {}
  int64_t size() const override { return samples_->size(); }
  Batch Load(absl::Span<const int64_t> indices) const override { return samples_->Load(indices); }
  const GenerateOptions& generate_options() const override { return generate_; }

 private:
  const std::shared_ptr<const Dataset> samples_;
  const GenerateOptions generate_;
};

int64_t LongestAnswer(const IclTask& task, const Tokenizer& tokenizer) {
  size_t longest = 1;
  for (int64_t question = 0; question < task.size(); ++question) {
    for (const std::string& answer : task.Answers(question))
      longest = std::max(longest, tokenizer.Encode(task.Response(question, answer)).ids.size());
  }
  return static_cast<int64_t>(longest);
}

}  // namespace

absl::StatusOr<std::shared_ptr<const SampleSource>> OpenIclTask(const IclTaskOptions& options, int64_t max_seq_len,
                                                                std::shared_ptr<const Tokenizer> tokenizer) {
  if (tokenizer == nullptr) return absl::InvalidArgumentError(kNeedsTokenizer);
  ASSIGN_OR_RETURN(IclTask task, IclTask::Open(options));
  return std::make_shared<const IclSource>(std::move(task), max_seq_len, std::move(tokenizer));
}

absl::StatusOr<std::shared_ptr<const PromptDataset>> OpenIclPrompts(const IclTaskOptions& options,
                                                                    GenerateOptions generate, int64_t max_seq_len,
                                                                    std::shared_ptr<const Tokenizer> tokenizer) {
  constexpr int64_t kMoreWithThoughts = 10;
  if (tokenizer == nullptr) return absl::InvalidArgumentError(kNeedsTokenizer);
  const SpecialTokens& special = tokenizer->special_tokens();
  if (!special.eos.has_value() && generate.eos_token_id.empty())
    return absl::InvalidArgumentError(
        "generation_task_with_answers needs a tokenizer with an end-of-text token (`eos`), at which answers end");
  ASSIGN_OR_RETURN(IclTask task, IclTask::Open(options));
  generate.max_new_tokens = LongestAnswer(task, *tokenizer) + (options.cot_delimiter.empty() ? 0 : kMoreWithThoughts);
  if (generate.eos_token_id.empty()) generate.eos_token_id = {*special.eos};
  if (max_seq_len <= generate.max_new_tokens)
    return absl::InvalidArgumentError(absl::StrCat("max_seq_len: ", max_seq_len, ", but answers have up to ",
                                                   generate.max_new_tokens, " tokens, and a question needs one more"));
  if (generate.logits.min_new_tokens > generate.max_new_tokens)
    return absl::InvalidArgumentError(absl::StrCat("generation_kwargs.min_new_tokens: ", generate.logits.min_new_tokens,
                                                   ", but answers have up to ", generate.max_new_tokens, " tokens"));
  const int64_t room = max_seq_len - generate.max_new_tokens;
  Preparation preparation;
  preparation.collator = std::make_shared<const PadCollator>(PadOptions{.pad_id = special.pad.value_or(0)});
  return std::make_shared<const IclPrompts>(
      PrepareSamples(std::make_shared<const PromptSource>(std::move(task), std::move(tokenizer), room),
                     std::move(preparation)),
      std::move(generate));
}

}  // namespace composer
