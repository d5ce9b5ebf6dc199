// Bytes in as they come, whole lines out. Pure: the time is given.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace composer {

// What is drawn again and again on one line ("\r") comes out as a line every kRedrawInterval and when the line ends, and
// without its bar: "train: 45%|████▌    | 210/469" as "train: 45% 210/469". So a log reads as under nohup.
class LineSplitter {
 public:
  static constexpr size_t kMaxLine = 64 << 10;  // a longer line comes out in pieces
  static constexpr absl::Duration kRedrawInterval = absl::Seconds(10);

  // Whole lines (each with its \n) that `bytes` completes; the rest waits.
  std::string Take(absl::string_view bytes, absl::Time now);
  // What waits, with a \n added; "" when nothing does.
  std::string Flush();

 private:
  void EndRedraw(absl::Time now, std::string& whole);
  void EndLine(std::string& whole);

  std::string rest_;
  bool after_return_ = false;                      // "\r" was the last byte: "\r\n" ends a line, all else redraws it
  bool redrawn_ = false;                           // rest_ is drawn over something
  absl::Time next_redraw_ = absl::InfinitePast();  // InfinitePast: nothing was redrawn yet
};

// A progress bar of ours leaves its line when the same stream says something else: "\r<bar>\x1b[K" is followed by a new
// line then. Other bytes pass as they are.
class BarSeparator {
 public:
  // What to show; until the next call, and as long as `bytes`.
  absl::string_view Take(absl::string_view bytes);

 private:
  enum class At { kText, kRedraw, kBarEnd };
  At at_ = At::kText;
  std::string scratch_;
  size_t erase_seen_ = 0;  // bytes of "\x1b[K" that the redraw ends with so far
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
