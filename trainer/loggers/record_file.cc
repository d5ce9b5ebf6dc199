// SPDX-License-Identifier: Apache-2.0
#include "trainer/loggers/record_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <optional>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "base/file.h"

namespace composer {
namespace {

constexpr int64_t kBlock = 64 << 10;
constexpr size_t kHead = 512;         // bytes of a line, enough for its times and its launch
constexpr size_t kMaxLine = 1 << 20;  // bytes; longer lines are not records
constexpr int kMaxFiles = 100'000;

using BatchTime = std::pair<int64_t, int64_t>;  // batch, epoch; the epoch may end after its last batch

// Iterates over the lines of a file from its end.
class LinesBackwards {
 public:
  LinesBackwards(int fd, int64_t size) : fd_(fd), end_(size), start_(size) {}

  // Moves to the previous line. Returns false when there is none, or the file cannot be read.
  bool Next() {
    end_ = start_;
    if (end_ == 0) return false;
    for (int64_t at = end_ - 1; at > 0; at = block_start_) {  // the byte at end_ - 1 may be this line's own "\n"
      if (!Hold(at)) return false;
      const void* newline = memrchr(block_.data(), '\n', static_cast<size_t>(at - block_start_));
      if (newline == nullptr) continue;
      start_ = block_start_ + (static_cast<const char*>(newline) - block_.data()) + 1;
      return true;
    }
    start_ = 0;
    return true;
  }
  int64_t end() const { return end_; }
  std::string Head() const {
    std::string head(std::min<size_t>(kHead, static_cast<size_t>(end_ - start_)), '\0');
    const ssize_t count = pread(fd_, head.data(), head.size(), start_);
    head.resize(static_cast<size_t>(std::max<ssize_t>(0, count)));
    return head;
  }
  bool IsWhole() const {
    char last = 0;
    return pread(fd_, &last, 1, end_ - 1) == 1 && last == '\n';
  }

 private:
  // Makes block_ hold the bytes up to `end`, and some before.
  bool Hold(int64_t end) {
    const bool held = block_start_ < end && end <= block_start_ + static_cast<int64_t>(block_.size());
    if (held) return true;
    block_start_ = std::max<int64_t>(0, end - kBlock);
    block_.resize(static_cast<size_t>(end - block_start_));
    return pread(fd_, block_.data(), block_.size(), block_start_) == static_cast<ssize_t>(block_.size());
  }

  const int fd_;
  int64_t end_, start_;
  int64_t block_start_ = 0;
  std::string block_;
};

bool TakeNumber(absl::string_view key, absl::string_view& text, int64_t& number) {
  if (!absl::ConsumePrefix(&text, key)) return false;
  const size_t end = text.find_first_not_of("-0123456789");
  if (end == absl::string_view::npos || !absl::SimpleAtoi(text.substr(0, end), &number)) return false;
  text.remove_prefix(end);
  return true;
}

std::optional<BatchTime> TimeOf(absl::string_view head) {
  int64_t epoch = 0, batch = 0;
  if (!TakeNumber("{\"time/epoch\":", head, epoch) || !TakeNumber(",\"time/batch\":", head, batch)) return std::nullopt;
  return BatchTime(batch, epoch);
}

int64_t LaunchOf(absl::string_view head) {
  constexpr absl::string_view kKey = ",\"launch\":";
  const size_t found = head.find(kKey);
  int64_t launch = 0;
  if (found == absl::string_view::npos) return 0;
  head.remove_prefix(found);
  return TakeNumber(kKey, head, launch) ? launch : 0;
}

// Returns where the records up to `last` end, or nullopt when the file has no record at all.
std::optional<int64_t> EndOfKept(int fd, int64_t size, BatchTime last) {
  bool any = false;
  for (LinesBackwards lines(fd, size); lines.Next();) {
    const std::optional<BatchTime> time = TimeOf(lines.Head());
    any = any || time.has_value();
    if (time.has_value() && *time <= last && lines.IsWhole()) return lines.end();
  }
  return any ? std::optional<int64_t>(0) : std::nullopt;
}

int64_t NewestLaunch(int fd, int64_t size) {
  LinesBackwards lines(fd, size);
  while (lines.Next()) {
    const std::string head = lines.Head();
    if (TimeOf(head).has_value()) return LaunchOf(head);
  }
  return 0;
}

absl::Status MoveAside(const std::string& path) {
  const std::filesystem::path whole(path);
  const std::string stem = (whole.parent_path() / whole.stem()).string(), extension = whole.extension().string();
  for (int number = 1; number < kMaxFiles; ++number) {
    const std::string free = absl::StrCat(stem, "-", number, extension);
    if (PathExists(free)) continue;
    return rename(path.c_str(), free.c_str()) == 0 ? absl::OkStatus() : ErrnoStatus(errno, "cannot rename", path);
  }
  return absl::ResourceExhaustedError(absl::StrCat("no free name for ", path));
}

// Returns where the first record of `batch` or a later one begins.
int64_t BeginOf(int fd, int64_t size, int64_t batch) {
  if (batch <= 0) return 0;
  for (LinesBackwards lines(fd, size); lines.Next();) {
    const std::optional<BatchTime> time = TimeOf(lines.Head());
    if (time.has_value() && time->first < batch) return lines.end();
  }
  return 0;
}

absl::Status CutAt(int fd, int64_t size, const std::string& path) {
  return ftruncate(fd, size) == 0 ? absl::OkStatus() : ErrnoStatus(errno, "cannot cut", path);
}

}  // namespace

absl::Status RewindRecords(const std::string& path, const RunStart& start, int64_t launch) {
  const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return errno == ENOENT ? absl::OkStatus() : ErrnoStatus(errno, "cannot open", path);
  const absl::Cleanup close_fd = [fd] { close(fd); };
  struct stat info{};
  if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode) || info.st_size == 0) return absl::OkStatus();
  if (!start.resumed) {
    const bool ours = launch > 0 && NewestLaunch(fd, info.st_size) == launch;
    return ours ? CutAt(fd, 0, path) : MoveAside(path);
  }
  const std::optional<int64_t> kept =
      EndOfKept(fd, info.st_size, BatchTime(start.timestamp.batch, start.timestamp.epoch));
  return kept.has_value() && *kept < info.st_size ? CutAt(fd, *kept, path) : absl::OkStatus();
}

absl::Status ReadRecords(const std::string& path, int64_t first_batch, const Timestamp& last,
                         const std::function<void(absl::string_view line)>& take) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return errno == ENOENT ? absl::OkStatus() : ErrnoStatus(errno, "cannot open", path);
  const absl::Cleanup close_fd = [fd] { close(fd); };
  struct stat info{};
  if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) return absl::OkStatus();
  std::string rest, block(kBlock, '\0');
  bool in_long_line = false;
  for (int64_t at = BeginOf(fd, info.st_size, first_batch); at < info.st_size;) {
    const ssize_t count = pread(fd, block.data(), block.size(), at);
    if (count <= 0) return ErrnoStatus(errno, "cannot read", path);
    at += count;
    rest.append(block, 0, static_cast<size_t>(count));
    size_t begin = 0;
    for (size_t end = 0; (end = rest.find('\n', begin)) != std::string::npos; begin = end + 1) {
      const absl::string_view line = absl::string_view(rest).substr(begin, end - begin);
      if (std::exchange(in_long_line, false) || line.size() > kMaxLine) continue;
      const std::optional<BatchTime> time = TimeOf(line);
      if (time.has_value() && *time > BatchTime(last.batch, last.epoch)) return absl::OkStatus();
      if (time.has_value()) take(line);
    }
    rest.erase(0, begin);
    if (rest.size() <= kMaxLine) continue;
    rest.clear();
    in_long_line = true;
  }
  return absl::OkStatus();
}

}  // namespace composer
