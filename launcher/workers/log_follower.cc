// SPDX-License-Identifier: Apache-2.0
#include "launcher/workers/log_follower.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <set>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "base/file.h"
#include "launcher/workers/worker_group.h"

namespace composer {
namespace {

constexpr int64_t kBlock = 64 << 10;
constexpr size_t kMaxRead = 1 << 20;

// Returns the number in "gen-002" or "rank-00001.log"; -1 for any other name.
int NumberIn(absl::string_view name, absl::string_view prefix, absl::string_view suffix) {
  int number = -1;
  if (!absl::ConsumePrefix(&name, prefix) || !absl::ConsumeSuffix(&name, suffix)) return -1;
  return absl::SimpleAtoi(name, &number) && number >= 0 ? number : -1;
}

// Returns where the last `lines` lines of a file of `size` bytes begin.
int64_t StartOfLastLines(int fd, int64_t size, int64_t lines) {
  std::string block;
  for (int64_t end = size; end > 0;) {
    const int64_t begin = std::max<int64_t>(0, end - kBlock);
    block.resize(static_cast<size_t>(end - begin));
    if (pread(fd, block.data(), block.size(), begin) != end - begin) return 0;
    for (int64_t i = end - 1; i >= begin; --i) {
      const bool ends_a_line = block[static_cast<size_t>(i - begin)] == '\n' && i != size - 1;
      if (ends_a_line && --lines <= 0) return i + 1;
    }
    end = begin;
  }
  return 0;
}

}  // namespace

absl::StatusOr<std::vector<int>> LogGenerations(const std::string& run_folder, int rank) {
  std::vector<int> generations;
  std::set<int> ranks;
  const std::string folder = JoinPath(run_folder, "logs");
  for (const std::string& name : ListDir(folder).value_or(std::vector<std::string>())) {
    const int generation = NumberIn(name, "gen-", "");
    if (generation < 0) continue;
    for (const std::string& file : ListDir(JoinPath(folder, name)).value_or(std::vector<std::string>())) {
      const int found = NumberIn(file, "rank-", ".log");
      if (found >= 0) ranks.insert(found);
      if (found == rank) generations.push_back(generation);
    }
  }
  std::sort(generations.begin(), generations.end());
  if (!generations.empty()) return generations;
  return absl::NotFoundError(ranks.empty() ? absl::StrCat("no log files under ", folder)
                                           : absl::StrCat("rank ", rank, " has no log under ", folder,
                                                          "; there are those of ranks ", absl::StrJoin(ranks, ", ")));
}

absl::Status LogFollower::Open(int generation, int64_t last_lines) {
  path_ = LogPath(run_folder_, generation, rank_);
  generation_ = generation;
  offset_ = 0;
  const int fd = open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return ErrnoStatus(errno, "cannot read", path_);
  const absl::Cleanup close_fd = [fd] { close(fd); };
  const int64_t size = lseek(fd, 0, SEEK_END);
  if (last_lines == 0) offset_ = size;
  if (last_lines > 0) offset_ = StartOfLastLines(fd, size, last_lines);
  return absl::OkStatus();
}

absl::StatusOr<std::string> LogFollower::Read() {
  const int fd = open(path_.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return ErrnoStatus(errno, "cannot read", path_);
  const absl::Cleanup close_fd = [fd] { close(fd); };
  std::string text(kMaxRead, '\0');
  const ssize_t count = pread(fd, text.data(), text.size(), offset_);
  if (count < 0) return ErrnoStatus(errno, "cannot read", path_);
  text.resize(static_cast<size_t>(count));
  offset_ += count;
  return text;
}

}  // namespace composer
