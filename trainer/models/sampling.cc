// SPDX-License-Identifier: Apache-2.0
#include "trainer/models/sampling.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "trainer/core/random.h"

namespace composer {
namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();

// Sets the scores below the k-th largest to -inf.
void KeepTopK(int64_t k, std::vector<double>& scores) {
  if (k <= 0 || k >= static_cast<int64_t>(scores.size())) return;
  std::vector<double> sorted = scores;
  std::nth_element(sorted.begin(), sorted.begin() + (k - 1), sorted.end(), std::greater<>());
  const double least = sorted[static_cast<size_t>(k - 1)];
  for (double& score : scores) {
    if (score < least) score = kNever;
  }
}

void Softmax(std::vector<double>& scores) {
  const double largest = *std::max_element(scores.begin(), scores.end());
  double sum = 0;
  for (double& score : scores) sum += score = std::exp(score - largest);
  for (double& score : scores) score /= sum;
}

// Among equals the earlier token counts as the likelier one. At least one token is kept.
void KeepTopP(double p, std::vector<double>& probabilities) {
  if (p >= 1) return;
  std::vector<size_t> order(probabilities.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return probabilities[a] > probabilities[b]; });
  double sum = 0;
  for (const size_t token : order) {
    if (sum >= p) probabilities[token] = 0;
    sum += probabilities[token];
  }
  const double left = std::accumulate(probabilities.begin(), probabilities.end(), 0.0);
  for (double& probability : probabilities) probability /= left;
}

}  // namespace

absl::Status Validate(const SamplingOptions& options) {
  if (!(options.temperature > 0) || !std::isfinite(options.temperature)) {
    return absl::InvalidArgumentError(absl::StrCat("temperature must be above 0, got ", options.temperature,
                                                   "; for the likeliest token set do_sample: false"));
  }
  if (options.top_k < 0)
    return absl::InvalidArgumentError(absl::StrCat("top_k must be at least 0 (0: all tokens), got ", options.top_k));
  if (!(options.top_p > 0 && options.top_p <= 1))
    return absl::InvalidArgumentError(absl::StrCat("top_p must be above 0 and at most 1, got ", options.top_p));
  return absl::OkStatus();
}

std::vector<double> TokenProbabilities(absl::Span<const float> logits, const SamplingOptions& options) {
  std::vector<double> scores(logits.size());
  bool any = false;
  for (size_t i = 0; i < logits.size(); ++i) {
    scores[i] = std::isfinite(logits[i]) ? logits[i] / options.temperature : kNever;
    any = any || std::isfinite(logits[i]);
  }
  if (!any) {
    std::fill(scores.begin(), scores.end(), 0.0);
    if (!scores.empty()) scores[0] = 1;
    return scores;
  }
  KeepTopK(options.top_k, scores);
  Softmax(scores);
  KeepTopP(options.top_p, scores);
  return scores;
}

int64_t ChooseToken(absl::Span<const float> logits, const SamplingOptions& options, double uniform) {
  if (!options.do_sample) {
    size_t best = 0;
    for (size_t i = 1; i < logits.size(); ++i) {
      if (logits[i] > logits[best] || std::isnan(logits[best])) best = i;
    }
    return std::isnan(logits[best]) ? 0 : static_cast<int64_t>(best);
  }
  const std::vector<double> probabilities = TokenProbabilities(logits, options);
  double sum = 0;
  int64_t last = 0;
  for (size_t i = 0; i < probabilities.size(); ++i) {
    if (probabilities[i] <= 0) continue;
    last = static_cast<int64_t>(i);
    sum += probabilities[i];
    if (sum > uniform) break;
  }
  return last;  // the sum may fall short of 1 by rounding
}

double TokenUniform(uint64_t seed, uint64_t sample, uint64_t place) {
  return static_cast<double>(MixSeed(seed, sample, place) >> 11) * 0x1p-53;
}

}  // namespace composer
