// SPDX-License-Identifier: Apache-2.0
#include "data/text/double_array.h"

#include <algorithm>

namespace composer {

DoubleArray::DoubleArray(std::vector<std::pair<absl::string_view, int32_t>> keys) {
  std::erase_if(keys, [](const auto& key) { return key.first.empty(); });
  std::stable_sort(keys.begin(), keys.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  nodes_[0].parent = 0x7fffffff;  // taken, and nobody's child
  std::vector<Range> pending = {{0, keys.size(), 0, kRoot}};
  while (!pending.empty()) {
    const Range range = pending.back();
    pending.pop_back();
    Place(keys, range, pending);
  }
}

// Returns a base with which all children land on free places.
uint32_t DoubleArray::FindBase(const std::string& labels) {
  while (first_free_ < nodes_.size() && nodes_[first_free_].parent != kFree) ++first_free_;
  const auto first = static_cast<unsigned char>(labels[0]);
  size_t tried = 0;
  for (size_t place = first_free_;; ++place) {
    if (place + 256 >= nodes_.size()) nodes_.resize(nodes_.size() + std::max<size_t>(1024, nodes_.size() / 2));
    if (nodes_[place].parent != kFree) continue;
    // Places at the front that only few labels fit would be tried again and again.
    if (++tried == 64 && labels.size() == 1) first_free_ = place;
    const auto base = static_cast<uint32_t>(place) ^ first;
    const bool fits = std::all_of(labels.begin(), labels.end(), [&](char label) {
      return nodes_[base ^ static_cast<unsigned char>(label)].parent == kFree;
    });
    if (fits) return base;
    if (tried > 4096) first_free_ = place;
  }
}

void DoubleArray::Place(const std::vector<std::pair<absl::string_view, int32_t>>& keys, const Range& range,
                        std::vector<Range>& pending) {
  size_t at = range.begin;
  for (; at < range.end && keys[at].first.size() == range.depth; ++at)
    if (range.depth > 0) nodes_[range.node].value = keys[at].second;
  std::string labels;
  std::vector<size_t> starts;
  for (size_t i = at; i < range.end; ++i) {
    const char label = keys[i].first[range.depth];
    if (!labels.empty() && labels.back() == label) continue;
    labels.push_back(label);
    starts.push_back(i);
  }
  starts.push_back(range.end);
  if (labels.empty()) {
    nodes_[range.node].base = 0;  // any: its children would be their own parents' only if they were placed
    return;
  }
  const uint32_t base = FindBase(labels);
  nodes_[range.node].base = base;
  for (size_t i = 0; i < labels.size(); ++i) {
    const uint32_t child = base ^ static_cast<unsigned char>(labels[i]);
    nodes_[child].parent = range.node;
    pending.push_back({starts[i], starts[i + 1], range.depth + 1, child});
  }
}

}  // namespace composer
