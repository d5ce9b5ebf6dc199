// SPDX-License-Identifier: Apache-2.0
#include "trainer/metrics/icl_accuracy.h"

#include <torch/types.h>

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/format/json.h"
#include "trainer/metrics/metric_sums.h"

namespace composer {
namespace {

constexpr size_t kIclFields = 6;  // begin, end, question, choice, choices, gold

// A row's answer: logits [n, vocab] of its tokens [n].
struct IclAnswer {
  std::array<int64_t, kIclFields> fields;
  at::Tensor logits, tokens;
};

std::vector<IclAnswer> IclAnswers(const Outputs& outputs, const Batch& batch) {
  const at::Tensor& logits = outputs.tensor();
  const auto found = batch.extra.find("icl");
  TORCH_CHECK_VALUE(found != batch.extra.end() && logits.dim() == 3,
                    "in-context accuracy needs logits [B, T, vocab] of a batch of icl_tasks, got ", logits.sizes());
  const at::Tensor icl = found->second.to(at::kCPU).contiguous();
  std::vector<IclAnswer> answers;
  for (int64_t row = 0; row < icl.size(0); ++row) {
    IclAnswer& answer = answers.emplace_back();
    std::copy_n(icl.data_ptr<int64_t>() + row * static_cast<int64_t>(kIclFields), kIclFields, answer.fields.begin());
    const auto [begin, end] = std::pair(answer.fields[0], answer.fields[1]);
    answer.logits = logits[row].slice(0, begin - 1, end - 1);
    answer.tokens = batch.inputs[row].slice(0, begin, end);
  }
  return answers;
}

class IclLmAccuracy final : public SummedMetric {
 public:
  IclLmAccuracy() : SummedMetric("InContextLearningLMAccuracy") {}
  void Update(const Outputs& outputs, const Batch& batch) override {
    for (const IclAnswer& answer : IclAnswers(outputs, batch)) {
      const at::Tensor right = answer.logits.argmax(-1).eq(answer.tokens).all().to(at::kDouble);
      sums_.AddTensor(torch::stack({right, torch::ones_like(right)}));
    }
  }
};

class IclMultipleChoiceAccuracy final : public Metric {
 public:
  std::string name() const override { return "InContextLearningMultipleChoiceAccuracy"; }
  absl::Span<double> sums() override { return {}; }
  absl::Span<std::vector<double>> lists() override { return absl::MakeSpan(&seen_, 1); }

  void Update(const Outputs& outputs, const Batch& batch) override {
    std::vector<at::Tensor> perplexities;
    const std::vector<IclAnswer> answers = IclAnswers(outputs, batch);
    for (const IclAnswer& answer : answers)
      perplexities.push_back(at::cross_entropy_loss(answer.logits.to(at::kFloat), answer.tokens).exp());
    if (perplexities.empty()) return;
    const at::Tensor values = torch::stack(perplexities).to(at::kCPU, at::kDouble);
    for (size_t i = 0; i < answers.size(); ++i) {
      const auto& fields = answers[i].fields;
      for (size_t field = 2; field < kIclFields; ++field) seen_.push_back(static_cast<double>(fields[field]));
      seen_.push_back(values[static_cast<int64_t>(i)].item<double>());
    }
  }

  double Compute() const override {
    struct Question {
      std::map<int64_t, double> perplexities;  // by choice
      int64_t choices = 0, gold = 0;
    };
    std::map<int64_t, Question> questions;
    for (size_t i = 0; i + kEntry <= seen_.size(); i += kEntry) {
      Question& question = questions[static_cast<int64_t>(seen_[i])];
      question.perplexities[static_cast<int64_t>(seen_[i + 1])] = seen_[i + 4];
      question.choices = static_cast<int64_t>(seen_[i + 2]);
      question.gold = static_cast<int64_t>(seen_[i + 3]);
    }
    double right = 0, all = 0;
    for (const auto& [number, question] : questions) {
      if (static_cast<int64_t>(question.perplexities.size()) != question.choices) continue;
      int64_t best = 0;
      for (const auto& [choice, perplexity] : question.perplexities)
        best = perplexity < question.perplexities.at(best) ? choice : best;
      right += best == question.gold ? 1 : 0;
      all += 1;
    }
    return right / all;
  }

 private:
  static constexpr size_t kEntry = 5;  // question, choice, choices, gold, perplexity
  std::vector<double> seen_;
};

class IclGenerationAccuracy final : public SummedMetric {
 public:
  explicit IclGenerationAccuracy(AnswerMatchOptions options)
      : SummedMetric("InContextLearningGenerationExactMatchAccuracy"), options_(std::move(options)) {}
  void Update(const Outputs& /*outputs*/, const Batch& batch) override {
    const auto texts = batch.texts.find(kGenerationsKey), answers = batch.texts.find(kAnswersKey);
    TORCH_CHECK_VALUE(
        texts != batch.texts.end() && answers != batch.texts.end() && texts->second.size() == answers->second.size(),
        name(), " needs the generations and answers of icl_tasks");
    for (size_t i = 0; i < texts->second.size(); ++i) {
      const auto right = ParseJson(answers->second[i]).get<std::vector<std::string>>();
      sums_.Add(IsRightAnswer(texts->second[i], right, options_) ? 1 : 0, 1);
    }
  }

 private:
  const AnswerMatchOptions options_;
};

}  // namespace

std::unique_ptr<Metric> MakeIclLmAccuracy() { return std::make_unique<IclLmAccuracy>(); }
std::unique_ptr<Metric> MakeIclMultipleChoiceAccuracy() { return std::make_unique<IclMultipleChoiceAccuracy>(); }

std::unique_ptr<Metric> MakeIclGenerationAccuracy(AnswerMatchOptions options) {
  return std::make_unique<IclGenerationAccuracy>(std::move(options));
}

}  // namespace composer
