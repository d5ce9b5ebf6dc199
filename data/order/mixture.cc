// SPDX-License-Identifier: Apache-2.0
#include "data/order/mixture.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace composer {
namespace {

constexpr int64_t kLongestPeriod = 1 << 20;

int64_t Period(const std::vector<int64_t>& weights) {
  return std::accumulate(weights.begin(), weights.end(), int64_t{0});
}

std::vector<int64_t> Reduced(std::vector<int64_t> weights) {
  int64_t divisor = 0;
  for (const int64_t weight : weights) divisor = std::gcd(divisor, weight);
  for (int64_t& weight : weights) weight /= divisor;
  return weights;
}

// Returns whole numbers in the proportion of the weights, which are positive.
std::vector<int64_t> WholeWeights(absl::Span<const double> weights) {
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  std::vector<int64_t> whole(weights.size());
  for (double scale = 1; scale <= 1e6 && sum * scale < 1e15; scale *= 10) {
    bool exact = true;
    for (size_t i = 0; i < weights.size(); ++i) {
      whole[i] = std::llround(weights[i] * scale);
      exact &= whole[i] > 0 && std::abs(weights[i] * scale - static_cast<double>(whole[i])) < 1e-6;
    }
    if (!exact) continue;
    whole = Reduced(std::move(whole));
    if (Period(whole) <= kLongestPeriod) return whole;
    break;
  }
  for (size_t i = 0; i < weights.size(); ++i) whole[i] = std::max<int64_t>(1, std::llround(weights[i] / sum * 1e6));
  return Reduced(std::move(whole));
}

}  // namespace

absl::StatusOr<Mixture::Part> Mixture::MakePart(const MixtureChange& change) {
  for (const double weight : change.weights) {
    if (!(weight > 0) || !std::isfinite(weight))
      return absl::InvalidArgumentError(absl::StrCat("a weight is ", weight, "; weights are positive numbers"));
  }
  Part part{.at = change.at, .weights = WholeWeights(change.weights)};
  const int64_t period = Period(part.weights);
  std::vector<int64_t> counts(part.weights.size(), 0);
  for (int64_t place = 1; place <= period; ++place) {
    size_t next = 0;
    int64_t farthest = INT64_MIN;
    for (size_t i = 0; i < counts.size(); ++i) {
      const int64_t behind = part.weights[i] * place - counts[i] * period;
      if (behind > farthest) {
        farthest = behind;
        next = i;
      }
    }
    part.sources.push_back(static_cast<uint32_t>(next));
    part.numbers.push_back(static_cast<uint32_t>(counts[next]++));
  }
  return part;
}

MixturePlace Mixture::Part::Within(int64_t place) const {
  const auto period = static_cast<int64_t>(sources.size());
  const auto in_period = static_cast<size_t>((place - at) % period);
  const size_t source = sources[in_period];
  return {source, before[source] + (place - at) / period * weights[source] + numbers[in_period]};
}

int64_t Mixture::Part::CountBefore(size_t source, int64_t place) const {
  const auto period = static_cast<int64_t>(sources.size());
  const auto rest = sources.begin() + (place - at) % period;
  return before[source] + (place - at) / period * weights[source] +
         std::count(sources.begin(), rest, static_cast<uint32_t>(source));
}

absl::StatusOr<Mixture> Mixture::Create(absl::Span<const MixtureChange> changes) {
  if (changes.empty() || changes[0].at != 0 || changes[0].weights.empty())
    return absl::InvalidArgumentError("a mixture needs at least one source, from place 0 on");
  Mixture mixture;
  for (const MixtureChange& change : changes) {
    const size_t sources = changes[0].weights.size();
    if (change.weights.size() != sources) {
      return absl::InvalidArgumentError(absl::StrCat("there are ", sources, " sources, but ", change.weights.size(),
                                                     " weights at sample ", change.at));
    }
    if (!mixture.parts_.empty() && change.at <= mixture.parts_.back().at)
      return absl::InvalidArgumentError(
          absl::StrCat("the change at sample ", change.at, " is not behind the one before"));
    ASSIGN_OR_RETURN(Part part, MakePart(change));
    for (size_t i = 0; i < sources; ++i)
      part.before.push_back(mixture.parts_.empty() ? 0 : mixture.parts_.back().CountBefore(i, change.at));
    mixture.parts_.push_back(std::move(part));
  }
  return mixture;
}

MixturePlace Mixture::At(int64_t place) const {
  const auto after =
      std::upper_bound(parts_.begin(), parts_.end(), place, [](int64_t at, const Part& part) { return at < part.at; });
  return std::prev(after)->Within(place);
}

}  // namespace composer
