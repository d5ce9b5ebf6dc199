// SPDX-License-Identifier: Apache-2.0
#include "launcher/workers/line_splitter.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace composer {

namespace {

constexpr absl::string_view kErase = "\x1b[K";  // erases to the end of the line; a bar's drawing ends with it

// Returns whether these bytes are the cells of a bar: spaces, and U+2580 to U+259F.
bool IsBar(absl::string_view cells) {
  while (!cells.empty()) {
    const bool block = cells.size() >= 3 && cells[0] == '\xe2' && cells[1] == '\x96';
    if (!block && cells[0] != ' ') return false;
    cells.remove_prefix(block ? 3 : 1);
  }
  return true;
}

std::string WithoutBar(absl::string_view text) {
  text = absl::StripSuffix(text, kErase);
  const size_t begin = text.find('|'), end = begin == absl::string_view::npos ? begin : text.find('|', begin + 1);
  if (end == absl::string_view::npos || !IsBar(text.substr(begin + 1, end - begin - 1))) return std::string(text);
  return absl::StrCat(text.substr(0, begin), text.substr(end + 1));
}

}  // namespace

std::string LineSplitter::Take(absl::string_view bytes, absl::Time now) {
  std::string whole;
  while (!bytes.empty()) {
    if (std::exchange(after_return_, false) && bytes[0] != '\n') EndRedraw(now, whole);
    const size_t end = bytes.find_first_of("\r\n");
    rest_.append(bytes.data(), std::min(end, bytes.size()));
    if (rest_.size() >= kMaxLine) whole += Flush();
    if (end == absl::string_view::npos) break;
    if (bytes[end] == '\r') {
      after_return_ = true;
    } else {
      EndLine(whole);
    }
    bytes.remove_prefix(end + 1);
  }
  return whole;
}

void LineSplitter::EndRedraw(absl::Time now, std::string& whole) {
  if (!rest_.empty() && next_redraw_ == absl::InfinitePast()) next_redraw_ = now + kRedrawInterval;
  if (!rest_.empty() && now >= next_redraw_) {
    absl::StrAppend(&whole, WithoutBar(rest_), "\n");
    next_redraw_ = now + kRedrawInterval;
  }
  rest_.clear();
  redrawn_ = true;
}

void LineSplitter::EndLine(std::string& whole) {
  absl::StrAppend(&whole, redrawn_ ? WithoutBar(rest_) : rest_, "\n");
  rest_.clear();
  redrawn_ = false;
}

std::string LineSplitter::Flush() {
  if (rest_.empty()) return "";
  std::string whole;
  EndLine(whole);
  return whole;
}

absl::string_view BarSeparator::Take(absl::string_view bytes) {
  if (at_ == At::kText && bytes.find('\r') == absl::string_view::npos) return bytes;
  scratch_.clear();
  for (const char c : bytes) {
    if (at_ == At::kBarEnd && c != '\r' && c != '\n') {
      scratch_.push_back('\n');
      at_ = At::kText;
    }
    if (c == '\r' || c == '\n') {
      at_ = c == '\r' ? At::kRedraw : At::kText;
      erase_seen_ = 0;
    } else if (at_ == At::kRedraw) {
      erase_seen_ = c == kErase[erase_seen_] ? erase_seen_ + 1 : c == kErase[0] ? 1 : 0;
      if (erase_seen_ == kErase.size()) at_ = At::kBarEnd;
    }
    scratch_.push_back(c);
  }
  return scratch_;
}

void LineTail::Add(absl::string_view lines) {
  for (absl::string_view line : absl::StrSplit(absl::StripSuffix(lines, "\n"), '\n')) {
    line = absl::StripSuffix(line, "\r");
    if (const size_t shown = line.rfind('\r'); shown != absl::string_view::npos) line.remove_prefix(shown + 1);
    if (line.empty()) continue;
    lines_.emplace_back(line.substr(0, kMaxColumns));
    if (lines_.size() > kLines) lines_.pop_front();
  }
}

}  // namespace composer
