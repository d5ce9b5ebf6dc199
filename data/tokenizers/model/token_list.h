// The tokens of a text: a buffer that grows without being filled first.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "data/text/aligned_text.h"

namespace composer {

struct TokenList {
  // Makes room for `more` ids beyond size() and returns where they go; then count them with Add.
  uint32_t* Room(size_t more) {
    if (size_ + more > capacity_) {
      capacity_ = std::max(size_ + more, capacity_ * 2);
      auto larger = std::make_unique_for_overwrite<uint32_t[]>(capacity_);
      std::copy_n(ids_.get(), size_, larger.get());
      ids_ = std::move(larger);
    }
    return ids_.get() + size_;
  }
  void Add(size_t count) { size_ += count; }
  void Push(uint32_t id) {
    *Room(1) = id;
    ++size_;
  }
  void Clear() {
    size_ = 0;
    spans.clear();
  }
  size_t size() const { return size_; }
  const uint32_t* ids() const { return ids_.get(); }

  std::vector<TextSpan> spans;  // of each token, if they are wanted

 private:
  std::unique_ptr<uint32_t[]> ids_;
  size_t size_ = 0, capacity_ = 0;
};

}  // namespace composer
