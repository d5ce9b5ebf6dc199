// Takes bytes as they arrive and returns whole lines. Pure: the caller passes the time.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace composer {

// A line that is redrawn again and again ("\r") is returned every kRedrawInterval and when it ends, without its
// progress bar: "train: 45%|████▌    | 210/469" becomes "train: 45% 210/469". A log thus reads as it would under nohup.
class LineSplitter {
 public:
  static constexpr size_t kMaxLine = 64 << 10;  // a longer line is returned in pieces
  static constexpr absl::Duration kRedrawInterval = absl::Seconds(10);

  // Returns the whole lines (each with its \n) that `bytes` completes, and keeps the rest.
  std::string Take(absl::string_view bytes, absl::Time now);
  // Returns the kept rest with a \n added; "" if there is none.
  std::string Flush();

 private:
  void EndRedraw(absl::Time now, std::string& whole);
  void EndLine(std::string& whole);

  std::string rest_;
  // "\r" was the last byte: "\r\n" ends a line, anything else redraws it.
  bool after_return_ = false;
  bool redrawn_ = false;                           // rest_ is drawn over an earlier text
  absl::Time next_redraw_ = absl::InfinitePast();  // InfinitePast if nothing was redrawn yet
};

// Moves other output of the same stream off the line of our progress bar: what follows "\r<bar>\x1b[K" starts on a new
// line. All other bytes pass unchanged.
class BarSeparator {
 public:
  // Returns what to show. The result is valid until the next call and while `bytes` lives.
  absl::string_view Take(absl::string_view bytes);

 private:
  enum class At { kText, kRedraw, kBarEnd };
  At at_ = At::kText;
  std::string scratch_;
  size_t erase_seen_ = 0;  // number of bytes of "\x1b[K" that the redraw ends with so far
};

// The last lines of a stream as a person would see them: of a line with \r, only what follows the last \r.
class LineTail {
 public:
  static constexpr size_t kLines = 20;
  static constexpr size_t kMaxColumns = 400;  // longer lines are truncated

  // Takes whole lines, as returned by LineSplitter.
  void Add(absl::string_view lines);
  std::vector<std::string> lines() const { return {lines_.begin(), lines_.end()}; }

 private:
  std::deque<std::string> lines_;
};

}  // namespace composer
