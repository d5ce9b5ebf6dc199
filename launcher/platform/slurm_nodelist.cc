// SPDX-License-Identifier: Apache-2.0
#include "launcher/platform/slurm_nodelist.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"

namespace composer {
namespace {

constexpr size_t kMaxNameBytes = 255;  // of a host name; also bounds the width of numbers
constexpr size_t kMaxTotalBytes = 64 << 20;
constexpr int kMaxTasksPerNode = 65536;

absl::Status Bad(absl::string_view part, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("`", part.substr(0, 100), "` ", why));
}

absl::Status TooMany() {
  return absl::InvalidArgumentError(absl::StrCat("the list names more than ", kMaxSlurmNodes, " nodes"));
}

// absl's own parser accepts signs and spaces.
bool ParseNumber(absl::string_view text, uint64_t* number) {
  return !text.empty() && std::all_of(text.begin(), text.end(), absl::ascii_isdigit) && absl::SimpleAtoi(text, number);
}

// Parses the inside of one pair of brackets: "001-003,7".
absl::StatusOr<std::vector<std::string>> ParseRanges(absl::string_view inside) {
  std::vector<std::string> numbers;
  for (const absl::string_view range : absl::StrSplit(inside, ',')) {
    const size_t dash = range.find('-');
    const absl::string_view first_text = range.substr(0, dash);
    const absl::string_view last_text = dash == absl::string_view::npos ? first_text : range.substr(dash + 1);
    uint64_t first = 0, last = 0;
    if (first_text.size() > kMaxNameBytes || !ParseNumber(first_text, &first) || !ParseNumber(last_text, &last)) {
      return Bad(range, "is not a number or a range of numbers");
    }
    if (last < first) return Bad(range, "is a range that ends before it begins");
    if (last - first >= kMaxSlurmNodes - numbers.size()) return TooMany();
    for (uint64_t n = first;; ++n) {
      numbers.push_back(absl::StrFormat("%0*u", static_cast<int>(first_text.size()), n));
      if (n == last) break;
    }
  }
  return numbers;
}

// Returns each of `stems` followed by each of `endings`.
absl::StatusOr<std::vector<std::string>> Cross(const std::vector<std::string>& stems,
                                               const std::vector<std::string>& endings) {
  if (stems.size() * endings.size() > kMaxSlurmNodes) return TooMany();
  std::vector<std::string> names;
  names.reserve(stems.size() * endings.size());
  for (const std::string& stem : stems) {
    for (const std::string& ending : endings) {
      if (stem.size() + ending.size() > kMaxNameBytes) return Bad(stem, "makes a name of more than 255 characters");
      names.push_back(absl::StrCat(stem, ending));
    }
  }
  return names;
}

// Parses one part between commas: "gpu-[1-2]-[3,4]".
absl::StatusOr<std::vector<std::string>> ParsePart(absl::string_view part) {
  std::vector<std::string> names = {""};
  absl::string_view rest = part;
  while (!rest.empty()) {
    const size_t open = std::min(rest.find('['), rest.size());
    ASSIGN_OR_RETURN(names, Cross(names, {std::string(rest.substr(0, open))}));
    rest.remove_prefix(open);
    if (rest.empty()) break;
    const size_t close = rest.find(']');
    if (close == absl::string_view::npos) return Bad(part, "has a [ without its ]");
    ASSIGN_OR_RETURN(const std::vector<std::string> numbers, ParseRanges(rest.substr(1, close - 1)));
    ASSIGN_OR_RETURN(names, Cross(names, numbers));
    rest.remove_prefix(close + 1);
  }
  return names;
}

// Returns the length of the first part of `text`, which ends at a comma or a space outside of brackets.
absl::StatusOr<size_t> PartLength(absl::string_view text) {
  bool inside = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (!inside && (c == ',' || absl::ascii_isspace(c))) return i;
    if (c == '[' ? inside : c == ']' && !inside)
      return Bad(text, absl::StrCat("has a ", text.substr(i, 1), " too many"));
    if (c == '[' || c == ']') inside = c == '[';
    if (!inside && c != ']' && !absl::ascii_isgraph(c)) return Bad(text, "has a character that no host name has");
  }
  return text.size();
}

absl::Status CheckSize(absl::string_view text) {
  if (text.size() <= kMaxSlurmListBytes) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the list has ", text.size(), " bytes, at most ", kMaxSlurmListBytes));
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ParseNodeList(absl::string_view text) {
  RETURN_IF_ERROR(CheckSize(text));
  std::vector<std::string> names;
  size_t bytes = 0;
  for (absl::string_view rest = text; !rest.empty();) {
    ASSIGN_OR_RETURN(const size_t length, PartLength(rest));
    if (length > 0) {
      ASSIGN_OR_RETURN(std::vector<std::string> part, ParsePart(rest.substr(0, length)));
      if (names.size() + part.size() > kMaxSlurmNodes) return TooMany();
      for (std::string& name : part) {
        bytes += name.size();
        names.push_back(std::move(name));
      }
      if (bytes > kMaxTotalBytes) return absl::InvalidArgumentError("the list's names fill more than 64 MiB");
    }
    rest.remove_prefix(std::min(length + 1, rest.size()));
  }
  if (names.empty()) return absl::InvalidArgumentError("the list names no node");
  return names;
}

absl::StatusOr<std::vector<int>> ParseTasksPerNode(absl::string_view text) {
  RETURN_IF_ERROR(CheckSize(text));
  std::vector<int> counts;
  for (const absl::string_view part : absl::StrSplit(text, ',')) {
    const size_t open = std::min(part.find('('), part.size());
    absl::string_view repeat = part.substr(open);
    uint64_t tasks = 0, nodes = 1;
    const bool repeated = absl::ConsumePrefix(&repeat, "(x") && absl::ConsumeSuffix(&repeat, ")");
    if (!ParseNumber(part.substr(0, open), &tasks) ||
        (open < part.size() && (!repeated || !ParseNumber(repeat, &nodes)))) {
      return Bad(part, "is not a count, as in 8 or 8(x4)");
    }
    if (tasks < 1 || tasks > kMaxTasksPerNode)
      return Bad(part, absl::StrCat("must have 1 to ", kMaxTasksPerNode, " tasks"));
    if (nodes < 1) return Bad(part, "speaks of no node");
    if (nodes > kMaxSlurmNodes - counts.size()) return TooMany();
    counts.insert(counts.end(), nodes, static_cast<int>(tasks));
  }
  return counts;
}

}  // namespace composer
