// SPDX-License-Identifier: Apache-2.0
#include "launcher/workers/rank_logs.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iterator>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/status_macros.h"

namespace composer {
namespace {

constexpr size_t kReadBytes = 64 << 10;
constexpr int kAllRanks = -1;
constexpr int kMaxReadsAtOnce = 64;  // a stream that never pauses must not hold us

std::string WithPrefix(absl::string_view prefix, absl::string_view lines) {
  std::string result;
  for (const absl::string_view line : absl::StrSplit(absl::StripSuffix(lines, "\n"), '\n')) {
    absl::StrAppend(&result, prefix, line, "\n");
  }
  return result;
}

// Returns `text` without those lines, which include their "\n".
std::string Without(absl::string_view text, const std::vector<std::string>& lines) {
  std::string result;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    const absl::string_view head = text.substr(0, end == absl::string_view::npos ? end : end + 1);
    if (std::find(lines.begin(), lines.end(), head) == lines.end()) result.append(head.data(), head.size());
    text.remove_prefix(head.size());
  }
  return result;
}

// A log file that the two streams of a rank may share.
struct LogFile {
  // Returns null for "".
  static absl::StatusOr<std::shared_ptr<LogFile>> Open(const std::string& path) {
    if (path.empty()) return std::shared_ptr<LogFile>();
    const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (fd < 0) return ErrnoStatus(errno, "cannot open log", path);
    return std::make_shared<LogFile>(fd, path);
  }
  LogFile(int descriptor, std::string file_path) : fd(descriptor), path(std::move(file_path)) {}
  ~LogFile() { close(fd); }
  LogFile(const LogFile&) = delete;
  LogFile& operator=(const LogFile&) = delete;

  // Writes to the file at *log. When that fails, the run goes on without the file.
  static void Write(std::shared_ptr<LogFile>* log, absl::string_view bytes) {
    if (*log == nullptr) return;
    const absl::Status written = WriteAll((*log)->fd, bytes, (*log)->path);
    if (written.ok()) return;
    LOG(WARNING) << written.message() << ": the run goes on without this log";
    *log = nullptr;
  }

  const int fd;
  const std::string path;
};

}  // namespace

struct RankLogs::Stream {
  Stream(int number, int source, ConsoleWriter& writer, bool keeps, Show how, bool coloured,
         std::shared_ptr<LogFile> log, std::shared_ptr<LogFile> own)
      : fd(source),
        rank(number),
        prefix(RankPrefix(number, coloured)),
        show(how),
        keeps_tail(keeps),
        console(writer),
        file(std::move(log)),
        own_file(std::move(own)) {
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
  }
  ~Stream() { close(fd); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  const int fd;
  const int rank;
  const std::string prefix;
  const Show show;
  const bool keeps_tail;  // for stderr
  ConsoleWriter& console;
  std::shared_ptr<LogFile> file;      // may be null
  std::shared_ptr<LogFile> own_file;  // of this stream alone; may be null
  bool ended = false;
  BarSeparator bar;
  LineSplitter lines;

  // Returns whether reading the stream now loses nothing.
  bool MayRead() const { return show == Show::kHidden || file != nullptr || own_file != nullptr || console.HasRoom(); }

  void Deliver(const std::string& whole, LineTail& tail, const std::vector<std::string>& suppressed_lines,
               ConsoleWriter::Urgency urgency) {
    if (whole.empty()) return;
    LogFile::Write(&file, whole);
    const std::string shown = show == Show::kPrefixed ? Without(whole, suppressed_lines) : "";
    if (!shown.empty()) console.Write(WithPrefix(prefix, shown), urgency, ConsoleWriter::Place::kNewLine);
    if (keeps_tail) tail.Add(whole);
  }
};

std::string RankPrefix(int rank, bool coloured) {
  static constexpr int kColours[] = {36, 33, 32, 35, 34, 96, 93, 92, 95, 94};  // without red, which signals trouble
  if (!coloured) return absl::StrCat("[", rank, "] ");
  return absl::StrCat("\033[", kColours[static_cast<size_t>(rank) % std::size(kColours)], "m[", rank, "]\033[0m ");
}

RankLogs::RankLogs(Console& console, LogColours colours)
    : console_(console), colours_(colours), wake_fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  console_.WakeWhenRoom(wake_fd_);
  thread_ = std::thread([this] { Loop(); });
}

RankLogs::~RankLogs() {
  Drain();
  console_.WakeWhenRoom(-1);
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  eventfd_write(wake_fd_, 1);
  thread_.join();
  close(wake_fd_);
}

absl::Status RankLogs::Add(const Rank& rank) {
  absl::Cleanup close_fds = [&rank] {
    close(rank.stdout_fd);
    close(rank.stderr_fd);
  };
  std::shared_ptr<LogFile> file, out, err;
  ASSIGN_OR_RETURN(file, LogFile::Open(rank.log_path));
  ASSIGN_OR_RETURN(out, LogFile::Open(rank.stdout_path));
  ASSIGN_OR_RETURN(err, rank.stderr_path == rank.stdout_path ? out : LogFile::Open(rank.stderr_path));
  std::move(close_fds).Cancel();
  {
    absl::MutexLock lock(&mutex_);
    tails_[rank.rank].shown = rank.stderr_show != Show::kHidden;
    streams_.emplace_back(rank.rank, rank.stdout_fd, console_.Of(STDOUT_FILENO), /*keeps=*/false, rank.show,
                          colours_.out, file, out);
    streams_.emplace_back(rank.rank, rank.stderr_fd, console_.Of(STDERR_FILENO), /*keeps=*/true, rank.stderr_show,
                          colours_.err, file, err);
  }
  eventfd_write(wake_fd_, 1);
  return absl::OkStatus();
}

std::vector<std::string> RankLogs::StderrTail(int rank) {
  absl::MutexLock lock(&mutex_);
  PumpAll(rank);
  const auto it = tails_.find(rank);
  return it == tails_.end() ? std::vector<std::string>() : it->second.lines.lines();
}

bool RankLogs::WasShown(const std::string& line) {
  absl::MutexLock lock(&mutex_);
  PumpAll(kAllRanks);
  suppressed_lines_.push_back(absl::StrCat(line, "\n"));
  const std::string kept = line.substr(0, LineTail::kMaxColumns);
  return std::any_of(tails_.begin(), tails_.end(), [&](const auto& entry) {
    const std::vector<std::string> lines = entry.second.lines.lines();
    return entry.second.shown && std::find(lines.begin(), lines.end(), kept) != lines.end();
  });
}

void RankLogs::Hush(const std::string& line) {
  absl::MutexLock lock(&mutex_);
  suppressed_lines_.push_back(absl::StrCat(line, "\n"));
}

bool RankLogs::ShowsStderr(int rank) {
  absl::MutexLock lock(&mutex_);
  const auto it = tails_.find(rank);
  return it != tails_.end() && it->second.shown;
}

void RankLogs::Drain() {
  absl::MutexLock lock(&mutex_);
  PumpAll(kAllRanks);
  for (Stream& stream : streams_) {
    stream.Deliver(stream.lines.Flush(), tails_[stream.rank].lines, suppressed_lines_, ConsoleWriter::Urgency::kUrgent);
  }
  streams_.clear();
  tails_.clear();
  suppressed_lines_.clear();
}

void RankLogs::PumpAll(int rank) {
  for (Stream& stream : streams_) {
    if (rank != kAllRanks && stream.rank != rank) continue;
    for (int reads = 0; reads < kMaxReadsAtOnce && !stream.ended; ++reads) {
      pollfd ready = {stream.fd, POLLIN, 0};
      if (poll(&ready, 1, 0) <= 0) break;
      stream.ended = !Pump(stream, ConsoleWriter::Urgency::kUrgent);
    }
  }
}

bool RankLogs::Pump(Stream& stream, ConsoleWriter::Urgency urgency) {
  char buffer[kReadBytes];
  const ssize_t count = read(stream.fd, buffer, sizeof(buffer));
  if (count < 0) return errno == EAGAIN || errno == EINTR;
  if (count == 0) {
    stream.Deliver(stream.lines.Flush(), tails_[stream.rank].lines, suppressed_lines_, urgency);
    return false;
  }
  const absl::string_view bytes(buffer, static_cast<size_t>(count));
  const absl::string_view text = stream.bar.Take(bytes);
  if (stream.show == Show::kRaw && suppressed_lines_.empty()) stream.console.Write(text, urgency);
  if (stream.show == Show::kRaw && !suppressed_lines_.empty())
    stream.console.Write(Without(text, suppressed_lines_), urgency);
  LogFile::Write(&stream.own_file, bytes);
  stream.Deliver(stream.lines.Take(text, absl::Now()), tails_[stream.rank].lines, suppressed_lines_, urgency);
  return true;
}

void RankLogs::Loop() {
  std::vector<pollfd> polls;
  while (true) {
    polls.assign(1, {wake_fd_, POLLIN, 0});
    {
      absl::MutexLock lock(&mutex_);
      if (stopping_) return;
      streams_.remove_if([](const Stream& stream) { return stream.ended; });
      for (const Stream& stream : streams_) {
        if (stream.MayRead()) polls.push_back({stream.fd, POLLIN, 0});
      }
    }
    if (poll(polls.data(), polls.size(), -1) <= 0) continue;
    eventfd_t ignored;
    eventfd_read(wake_fd_, &ignored);
    absl::MutexLock lock(&mutex_);
    for (Stream& stream : streams_) {
      if (stream.ended || !stream.MayRead()) continue;
      pollfd ready = {stream.fd, POLLIN, 0};  // the list may have changed since the wait
      if (poll(&ready, 1, 0) > 0) stream.ended = !Pump(stream, ConsoleWriter::Urgency::kOutput);
    }
  }
}

}  // namespace composer
