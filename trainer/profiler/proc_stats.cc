// SPDX-License-Identifier: Apache-2.0
#include "trainer/profiler/proc_stats.h"

#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"

namespace composer {
namespace {

constexpr int64_t kSectorBytes = 512;  // the unit of /proc/diskstats, whatever the disk's own sector size

std::vector<absl::string_view> Words(absl::string_view line) {
  return absl::StrSplit(line, absl::ByAnyChar(" \t"), absl::SkipEmpty());
}

bool NumbersFrom(const std::vector<absl::string_view>& words, size_t first, std::vector<int64_t>* numbers) {
  for (size_t i = first; i < words.size(); ++i) {
    int64_t number = 0;
    if (!absl::SimpleAtoi(words[i], &number)) return false;
    numbers->push_back(number);
  }
  return true;
}

// sda1, nvme0n1p2 and mmcblk0p1 are partitions of a disk that is also listed.
bool IsWholeDisk(absl::string_view name) {
  if (absl::StartsWith(name, "loop") || absl::StartsWith(name, "ram")) return false;
  if (absl::StartsWith(name, "nvme") || absl::StartsWith(name, "mmcblk")) return !absl::StrContains(name, 'p');
  if (absl::StartsWith(name, "sd") || absl::StartsWith(name, "hd") || absl::StartsWith(name, "vd") ||
      absl::StartsWith(name, "xvd")) {
    return !absl::ascii_isdigit(static_cast<unsigned char>(name.back()));
  }
  return true;
}

}  // namespace

absl::StatusOr<int64_t> ParseResidentBytes(absl::string_view statm, int64_t page_bytes) {
  const std::vector<absl::string_view> words = Words(statm);
  int64_t pages = 0;
  if (words.size() < 2 || !absl::SimpleAtoi(words[1], &pages))
    return absl::InternalError("/proc/self/statm has no resident pages");
  return pages * page_bytes;
}

std::map<std::string, DiskTotals> ParseDisks(absl::string_view proc_diskstats) {
  std::map<std::string, DiskTotals> disks;
  for (absl::string_view line : absl::StrSplit(proc_diskstats, '\n')) {
    const std::vector<absl::string_view> words = Words(line);
    std::vector<int64_t> numbers;
    // major minor name | reads merged sectors ms | writes merged sectors ms | in_flight busy_ms …
    if (words.size() < 13 || !IsWholeDisk(words[2]) || !NumbersFrom(words, 3, &numbers)) continue;
    disks[std::string(words[2])] = {numbers[2] * kSectorBytes, numbers[6] * kSectorBytes, numbers[9]};
  }
  return disks;
}

std::map<std::string, NetworkTotals> ParseNetwork(absl::string_view proc_net_dev) {
  std::map<std::string, NetworkTotals> interfaces;
  for (absl::string_view line : absl::StrSplit(proc_net_dev, '\n')) {
    const size_t colon = line.find(':');
    if (colon == absl::string_view::npos) continue;
    const std::vector<absl::string_view> words = Words(line.substr(colon + 1));
    std::vector<int64_t> numbers;
    if (words.size() < 9 || !NumbersFrom(words, 0, &numbers)) continue;
    interfaces[std::string(absl::StripAsciiWhitespace(line.substr(0, colon)))] = {numbers[0], numbers[8]};
  }
  return interfaces;
}

}  // namespace composer
