// SPDX-License-Identifier: Apache-2.0
#include "trainer/data/icl_source.h"

#include <torch/types.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace composer {
namespace {

class IclSource final : public SampleSource {
 public:
  IclSource(IclTask task, int64_t max_seq_len, std::shared_ptr<const Tokenizer> tokenizer)
      : task_(std::move(task)),
        max_seq_len_(max_seq_len),
        tokenizer_(std::move(tokenizer)),
        begins_with_space_(Tokens(" a").size() == 1) {
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
    std::vector<int64_t> tokens = Preamble(texts.preamble);
    const std::vector<int64_t> context = Tokens(texts.context);
    tokens.insert(tokens.end(), context.begin(), context.end());
    std::string said = texts.answer;
    if (begins_with_space_ && !absl::StartsWith(said, " ")) said.insert(0, 1, ' ');
    const std::vector<int64_t> answer = Tokens(said);
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
  std::vector<int64_t> Tokens(const std::string& text) const {
    return tokenizer_->Encode(text, /*add_special_tokens=*/false).ids;
  }

  // An end-of-text token does not stand between the examples and the question.
  std::vector<int64_t> Preamble(const std::string& text) const {
    std::vector<int64_t> tokens = tokenizer_->Encode(text, /*add_special_tokens=*/true).ids;
    if (tokens.size() > 1 && tokens.back() == tokenizer_->special_tokens().eos) tokens.pop_back();
    return tokens;
  }

  const IclTask task_;
  const int64_t max_seq_len_;
  const std::shared_ptr<const Tokenizer> tokenizer_;
  const bool begins_with_space_;
  std::vector<int64_t> first_;  // of each question
  int64_t rows_ = 0;
};

}  // namespace

absl::StatusOr<std::shared_ptr<const SampleSource>> OpenIclTask(const IclTaskOptions& options, int64_t max_seq_len,
                                                                std::shared_ptr<const Tokenizer> tokenizer) {
  if (tokenizer == nullptr)
    return absl::InvalidArgumentError("in-context tasks are texts: give the job the model's `tokenizer`");
  ASSIGN_OR_RETURN(IclTask task, IclTask::Open(options));
  return std::make_shared<const IclSource>(std::move(task), max_seq_len, std::move(tokenizer));
}

}  // namespace composer
