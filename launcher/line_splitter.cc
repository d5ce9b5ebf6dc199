// SPDX-License-Identifier: Apache-2.0
#include "launcher/line_splitter.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace composer {

std::string LineSplitter::Take(absl::string_view bytes) {
  const size_t end = bytes.rfind('\n');
  std::string whole;
  if (end != absl::string_view::npos) {
    whole = absl::StrCat(rest_, bytes.substr(0, end + 1));
    rest_.clear();
    bytes.remove_prefix(end + 1);
  }
  rest_.append(bytes.data(), bytes.size());
  if (rest_.size() >= kMaxLine) whole += Flush();
  return whole;
}

std::string LineSplitter::Flush() {
  if (rest_.empty()) return "";
  return std::exchange(rest_, "") + "\n";
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
