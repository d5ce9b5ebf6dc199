// Bytes in as they come, whole lines out.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace composer {

class LineSplitter {
 public:
  static constexpr size_t kMaxLine = 64 << 10;  // a longer line comes out in pieces

  // Whole lines (each with its \n) that `bytes` completes; the rest waits.
  std::string Take(absl::string_view bytes);
  // What waits, with a \n added; "" when nothing does.
  std::string Flush();

 private:
  std::string rest_;
};

// The last lines of a stream, as a person would see them: of a line with \r only what follows the last one.
class LineTail {
 public:
  static constexpr size_t kLines = 20;
  static constexpr size_t kMaxColumns = 400;  // longer lines are cut

  // Whole lines, as LineSplitter gives them.
  void Add(absl::string_view lines);
  std::vector<std::string> lines() const { return {lines_.begin(), lines_.end()}; }

 private:
  std::deque<std::string> lines_;
};

}  // namespace composer
