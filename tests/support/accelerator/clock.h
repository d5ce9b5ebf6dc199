// Vector clocks: what a stream or a host knows to be finished. Each operation of a stream that uses memory has a
// number; a clock holds, by stream, the number up to which everything happened before.
// Source: Fidge 1988; Mattern 1989.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace composer::mock {

// An operation: the `number`-th of its stream, from 1.
struct Epoch {
  int stream = 0;
  uint64_t number = 0;
};

class Clock {
 public:
  bool Knows(const Epoch& epoch) const { return At(epoch.stream) >= epoch.number; }
  uint64_t At(int stream) const {
    return static_cast<size_t>(stream) < known_.size() ? known_[static_cast<size_t>(stream)] : 0;
  }
  bool Covers(const Clock& other) const {
    for (size_t i = 0; i < other.known_.size(); ++i) {
      if (At(static_cast<int>(i)) < other.known_[i]) return false;
    }
    return true;
  }
  void Join(const Clock& other) {
    if (known_.size() < other.known_.size()) known_.resize(other.known_.size());
    for (size_t i = 0; i < other.known_.size(); ++i) known_[i] = std::max(known_[i], other.known_[i]);
  }
  // Begins the next operation of a stream.
  Epoch Next(int stream) {
    if (known_.size() <= static_cast<size_t>(stream)) known_.resize(static_cast<size_t>(stream) + 1);
    return {stream, ++known_[static_cast<size_t>(stream)]};
  }

 private:
  std::vector<uint64_t> known_;
};

}  // namespace composer::mock
