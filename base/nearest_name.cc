// SPDX-License-Identifier: Apache-2.0
#include "base/nearest_name.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace composer {

int EditDistance(absl::string_view a, absl::string_view b) {
  const size_t rows = a.size() + 1, columns = b.size() + 1;
  std::vector<int> cost(rows * columns);
  const auto at = [&](size_t i, size_t j) -> int& { return cost[i * columns + j]; };
  for (size_t i = 0; i < rows; ++i) at(i, 0) = static_cast<int>(i);
  for (size_t j = 0; j < columns; ++j) at(0, j) = static_cast<int>(j);
  for (size_t i = 1; i < rows; ++i) {
    for (size_t j = 1; j < columns; ++j) {
      const int substitution = at(i - 1, j - 1) + (a[i - 1] == b[j - 1] ? 0 : 1);
      at(i, j) = std::min({at(i - 1, j) + 1, at(i, j - 1) + 1, substitution});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) at(i, j) = std::min(at(i, j), at(i - 2, j - 2) + 1);
    }
  }
  return at(a.size(), b.size());
}

namespace {

std::string Folded(absl::string_view name) {
  std::string result = absl::AsciiStrToLower(name.substr(0, 64));
  std::replace(result.begin(), result.end(), '-', '_');
  return result;
}

}  // namespace

std::string NearestName(absl::string_view name, const std::vector<std::string>& known) {
  const std::string folded = Folded(name);
  std::string best;
  int best_distance = 0;
  for (const std::string& candidate : known) {
    const int distance = EditDistance(folded, Folded(candidate));
    const int limit = std::max<int>(1, static_cast<int>(std::max(folded.size(), candidate.size()) / 3));
    if (distance <= limit && (best.empty() || distance < best_distance)) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

std::string DidYouMean(absl::string_view name, const std::vector<std::string>& known) {
  const std::string nearest = NearestName(name, known);
  return nearest.empty() ? "" : absl::StrCat(" (did you mean `", nearest, "`?)");
}

}  // namespace composer
