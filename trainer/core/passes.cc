// SPDX-License-Identifier: Apache-2.0
#include "trainer/core/passes.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace composer {
namespace {

constexpr absl::string_view kFirst = "SelectiveBackprop";
constexpr absl::string_view kLast = "LowPrecisionLayerNorm";

}  // namespace

// These two keep the order of the others, and move by rotation because std::stable_partition allocates.
AlgorithmList SortSelectiveBackpropFirst(AlgorithmList list, Event event) {
  auto front = list.begin();
  for (auto it = list.begin(); it != list.end(); ++it) {
    if (it->name == kFirst) std::rotate(front++, it, it + 1);
  }
  return list;
}

AlgorithmList SortLowPrecisionLayerNormLast(AlgorithmList list, Event event) {
  auto back = list.rbegin();
  for (auto it = list.rbegin(); it != list.rend(); ++it) {
    if (it->name == kLast) std::rotate(back++, it, it + 1);
  }
  return list;
}

AlgorithmList SetFiloOrder(AlgorithmList list, Event event) {
  if (!IsAfterEvent(event)) return list;
  std::reverse(list.begin(), list.end());
  return SortLowPrecisionLayerNormLast(SortSelectiveBackpropFirst(std::move(list), event), event);
}

std::vector<AlgorithmPass> WithDefaultPasses(const std::vector<PlacedPass>& placed) {
  std::vector<AlgorithmPass> passes = {SortSelectiveBackpropFirst, SortLowPrecisionLayerNormLast, SetFiloOrder};
  for (const PlacedPass& own : placed) {
    const bool at_end = own.index < 0 || own.index > static_cast<int>(passes.size());
    passes.insert(at_end ? passes.end() : passes.begin() + own.index, own.pass);
  }
  return passes;
}

std::string LossInterpolationWarning(const AlgorithmList& all) {
  std::string names;
  int count = 0;
  for (const NamedAlgorithm& entry : all) {
    if (!entry.algorithm->interpolates_loss()) continue;
    absl::StrAppend(&names, count++ > 0 ? ", " : "", entry.name);
  }
  if (count < 2) return "";
  return absl::StrCat(names,
                      " all interpolate the loss (interpolate_loss: true): each mixes the loss of the one before, ",
                      "which is not what either means; keep one, or let the others interpolate the targets");
}

}  // namespace composer
