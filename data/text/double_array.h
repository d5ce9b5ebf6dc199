// A trie of byte strings in two arrays: which keys begin here, one step a byte. Made once, then read by any thread.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

namespace composer {

class DoubleArray {
 public:
  DoubleArray() = default;
  // Values are at least 0. Of keys that occur twice the last counts; the empty key is left out.
  explicit DoubleArray(std::vector<std::pair<absl::string_view, int32_t>> keys);

  static constexpr uint32_t kRoot = 0;
  // Moves along this byte. Returns false, and leaves the node, when no key goes on with it.
  bool Step(uint32_t& node, char byte) const {
    const uint32_t next = nodes_[node].base ^ static_cast<unsigned char>(byte);
    if (nodes_[next].parent != node) return false;
    node = next;
    return true;
  }
  // Returns the value of the key that ends here, or -1.
  int32_t value(uint32_t node) const { return nodes_[node].value; }

 private:
  static constexpr uint32_t kFree = 0xffffffff;
  struct Node {
    uint32_t base = 0;
    uint32_t parent = kFree;
    int32_t value = -1;
  };
  struct Range {
    size_t begin, end;  // keys that share their first `depth` bytes
    size_t depth;
    uint32_t node;
  };
  uint32_t FindBase(const std::string& labels);
  void Place(const std::vector<std::pair<absl::string_view, int32_t>>& keys, const Range& range,
             std::vector<Range>& pending);

  std::vector<Node> nodes_ = std::vector<Node>(256);
  size_t first_free_ = 1;
};

}  // namespace composer
