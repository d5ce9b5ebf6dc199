// SPDX-License-Identifier: Apache-2.0
#include "launcher/control/top_command.h"

#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/file.h"
#include "launcher/control/job_requests.h"
#include "launcher/control/top_view.h"
#include "launcher/workers/log_follower.h"

namespace composer {
namespace {

constexpr absl::Duration kFrame = absl::Seconds(1);
constexpr int kMostLogs = 64;  // ranks of which the last line is read
constexpr int64_t kMaxStat = 4096;

// Keys come without Enter, and the screen from before is back at the end.
class Screen {
 public:
  Screen() : shows_(isatty(STDOUT_FILENO) != 0 && tcgetattr(STDIN_FILENO, &before_) == 0) {
    if (!shows_) return;
    termios raw = before_;
    raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO | ISIG);
    tcsetattr(STDIN_FILENO, TCSANOW, &raw);
    Write("\033[?1049h\033[?25l");
  }
  ~Screen() {
    if (!shows_) return;
    Write("\033[?25h\033[?1049l");
    tcsetattr(STDIN_FILENO, TCSANOW, &before_);
  }
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  bool shows() const { return shows_; }
  void Measure(TopFrame& frame) const {
    winsize size{};
    if (!shows_ || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_row == 0) return;
    frame.rows = size.ws_row;
    frame.columns = size.ws_col;
  }
  void Draw(const std::string& text) const {
    std::string drawn = shows_ ? "\033[H\033[2J" : "";
    for (const char c : text) absl::StrAppend(&drawn, shows_ && c == '\n' ? "\r\n" : std::string(1, c));
    Write(shows_ ? drawn : drawn + "\n");
  }
  // Returns the key that is pressed within the time, 0 for none; 'q' for Ctrl-C and when stdin ends.
  char Key(absl::Duration limit) const {
    pollfd input = {STDIN_FILENO, POLLIN, 0};
    if (poll(&input, 1, static_cast<int>(absl::ToInt64Milliseconds(limit))) <= 0) return 0;
    char key = 0;
    return read(STDIN_FILENO, &key, 1) == 1 && key != '\x03' ? key : 'q';
  }

 private:
  static void Write(const std::string& text) {
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);
  }

  termios before_{};
  bool shows_;
};

// What changes from frame to frame.
class Watch {
 public:
  explicit Watch(bool local) : local_(local) {}

  void Fill(TopFrame& frame) {
    const absl::Time now = absl::Now();
    const double seconds = absl::ToDoubleSeconds(now - last_);
    std::map<int, Seen> seen;
    for (const proto::RankStatus& rank : frame.status.ranks()) {
      Seen& current = seen[rank.rank()];
      current = {rank.pid(), rank.step(), 0};
      const auto before = seen_.find(rank.rank());
      const bool same = before != seen_.end() && before->second.pid == rank.pid();
      if (same && rank.step() >= before->second.step)
        frame.steps_per_second[rank.rank()] = static_cast<double>(rank.step() - before->second.step) / seconds;
      if (!local_) continue;
      RankProcess& process = frame.processes[rank.rank()];
      ReadProcess(same ? std::optional<int64_t>(before->second.ticks) : std::nullopt, seconds, current, process);
      if (frame.processes.size() <= kMostLogs) process.last_line = LastLine(frame.status.run_folder(), rank.rank());
    }
    seen_ = std::move(seen);
    last_ = now;
  }

 private:
  struct Seen {
    int pid = 0;
    int64_t step = 0, ticks = 0;
  };

  static void ReadProcess(std::optional<int64_t> ticks_before, double seconds, Seen& current, RankProcess& process) {
    const absl::StatusOr<std::string> stat = ReadFile(absl::StrCat("/proc/", current.pid, "/stat"), kMaxStat);
    const std::optional<ProcessTimes> times = stat.ok() ? ParseProcessTimes(*stat) : std::nullopt;
    if (!times.has_value()) return;
    current.ticks = times->ticks;
    process.resident_bytes = times->resident_pages * sysconf(_SC_PAGESIZE);
    if (ticks_before.has_value() && times->ticks >= *ticks_before)
      process.cpu =
          static_cast<double>(times->ticks - *ticks_before) / static_cast<double>(sysconf(_SC_CLK_TCK)) / seconds;
  }

  static std::string LastLine(const std::string& run_folder, int rank) {
    if (run_folder.empty()) return "";
    const absl::StatusOr<std::vector<int>> generations = LogGenerations(run_folder, rank);
    LogFollower log(run_folder, rank);
    if (!generations.ok() || !log.Open(generations->back(), 1).ok()) return "";
    return std::string(absl::StripAsciiWhitespace(log.Read().value_or("")));
  }

  const bool local_;
  std::map<int, Seen> seen_;
  absl::Time last_ = absl::Now();
};

std::string Change(ControlClient& client, JobChange change) {
  const absl::StatusOr<AskedJob> asked = AskJob(client, change);
  return asked.ok() ? asked->said : std::string(asked.status().message());
}

}  // namespace

absl::Status ShowTop(ControlClient& client, bool local) {
  const Screen screen;
  Watch watch(local);
  std::string message;
  int first = 0;
  for (int frames = 0;; ++frames) {
    TopFrame frame;
    absl::StatusOr<proto::JobStatus> status = client.Status();
    if (frames > 0 && absl::IsUnavailable(status.status())) return absl::OkStatus();  // the job has ended
    if (!status.ok()) return status.status();
    frame.status = *std::move(status);
    watch.Fill(frame);
    screen.Measure(frame);
    frame.message = message;
    frame.first = first = std::clamp(first, 0, std::max(0, RanksOf(frame.status) - 1));
    screen.Draw(RenderTop(frame));
    if (!screen.shows() || frame.status.state() == "finished") return absl::OkStatus();
    const absl::Time next = absl::Now() + kFrame;
    for (char key = 0; absl::Now() < next && (key = screen.Key(next - absl::Now())) != 0;) {
      if (key == 'q') return absl::OkStatus();
      if (key == 's') message = Change(client, JobChange::kSave);
      if (key == 'p') message = Change(client, JobChange::kProfile);
      if (key == 't') message = Change(client, JobChange::kStacks);
      if (key == 'd') message = Change(client, JobChange::kDrain);
      if (key == 'j') first += 10;
      if (key == 'k') first -= 10;
    }
  }
}

}  // namespace composer
