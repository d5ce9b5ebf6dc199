// SPDX-License-Identifier: Apache-2.0
#include "trainer/metrics/bleu.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/format/json.h"

namespace composer {
namespace {

using Words = std::vector<absl::string_view>;
using Runs = std::map<Words, int64_t>;

constexpr size_t kLongestRun = 4;

// Returns how often each run of 1 to kLongestRun words occurs.
Runs RunsOf(const Words& words) {
  Runs runs;
  for (size_t begin = 0; begin < words.size(); ++begin) {
    for (size_t length = 1; length <= kLongestRun && begin + length <= words.size(); ++length)
      ++runs[Words(words.begin() + static_cast<int64_t>(begin), words.begin() + static_cast<int64_t>(begin + length))];
  }
  return runs;
}

size_t Distance(size_t a, size_t b) { return a > b ? a - b : b - a; }

// Its sums: the texts' words, the answers' words, and for each length the runs found and all of them.
class Bleu final : public Metric {
 public:
  explicit Bleu(AnswerMatchOptions options) : options_(std::move(options)) {}
  std::string name() const override { return "BLEU"; }
  absl::Span<double> sums() override { return absl::MakeSpan(sums_); }

  void Update(const Outputs& /*outputs*/, const Batch& batch) override {
    const auto texts = batch.texts.find(kGenerationsKey), answers = batch.texts.find(kAnswersKey);
    TORCH_CHECK_VALUE(
        texts != batch.texts.end() && answers != batch.texts.end() && texts->second.size() == answers->second.size(),
        "BLEU needs the generations and answers of icl_tasks");
    for (size_t i = 0; i < texts->second.size(); ++i)
      Add(WordsOf(AnswerIn(texts->second[i], options_)), ParseJson(answers->second[i]).get<std::vector<std::string>>());
  }

  double Compute() const override {
    double logarithms = 0;
    for (size_t n = 0; n < kLongestRun; ++n) {
      if (sums_[2 + n] == 0) return sums_[0] == 0 && sums_[1] == 0 ? NAN : 0;
      logarithms += std::log(sums_[2 + n] / sums_[2 + kLongestRun + n]);
    }
    const double too_short = sums_[0] > sums_[1] ? 0 : 1 - sums_[1] / sums_[0];
    return std::exp(too_short + logarithms / kLongestRun);
  }

 private:
  void Add(const Words& text, const std::vector<std::string>& answers) {
    Runs most;  // of any answer
    size_t nearest = 0;
    for (size_t i = 0; i < answers.size(); ++i) {
      const Words words = WordsOf(answers[i]);
      if (i == 0 || Distance(words.size(), text.size()) < Distance(nearest, text.size())) nearest = words.size();
      for (const auto& [run, count] : RunsOf(words)) most[run] = std::max(most[run], count);
    }
    sums_[0] += static_cast<double>(text.size());
    sums_[1] += static_cast<double>(nearest);
    for (const auto& [run, count] : RunsOf(text)) {
      const auto found = most.find(run);
      sums_[1 + run.size()] += static_cast<double>(found == most.end() ? 0 : std::min(count, found->second));
      sums_[1 + kLongestRun + run.size()] += static_cast<double>(count);
    }
  }

  const AnswerMatchOptions options_;
  std::array<double, 2 + 2 * kLongestRun> sums_ = {};
};

}  // namespace

std::unique_ptr<Metric> MakeBleu(AnswerMatchOptions options) { return std::make_unique<Bleu>(std::move(options)); }

}  // namespace composer
