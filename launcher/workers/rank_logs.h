// Sends the output of the workers to a file for each rank and to the launcher's own stdout and stderr.
//
// - Files get whole lines, of stdout and stderr together, and are appended to. Of a line that is redrawn in place, they
//   get one version now and then (line_splitter.h).
// - A stream may also have a file of its own, which gets its bytes as they arrive (--stdout, --redirects).
// - kRaw passes bytes through as they arrive, so that a progress bar with \r works. kPrefixed shows whole lines with
//   "[rank] " before them. kHidden shows nothing.
// - The last lines of stderr stay in memory for the failure message.
// A thread of its own moves the bytes, and the console's thread writes to the terminal. A terminal that does not read
// blocks nobody whose output a file keeps. Output that no file keeps stays in its pipe until the terminal reads again,
// so that nothing is lost and only the program that wrote it waits. Thread-safe.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <list>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "base/console.h"
#include "launcher/workers/line_splitter.h"

namespace composer {

// Returns "[3] ", in the rank's colour if `coloured`; the colours of neighbouring ranks differ. Pure.
std::string RankPrefix(int rank, bool coloured);

// Whether prefixes on the launcher's own streams are coloured.
struct LogColours {
  bool out = false;
  bool err = false;
};

class RankLogs {
 public:
  enum class Show { kHidden, kRaw, kPrefixed };

  struct Rank {
    int rank = 0;
    int stdout_fd = -1;  // read ends of pipes, owned by RankLogs from here on
    int stderr_fd = -1;
    std::string log_path;  // "" means no file
    Show show = Show::kRaw;
    Show stderr_show = Show::kRaw;
    std::string stdout_path;  // a file for this stream alone, byte for byte; "" if none
    std::string stderr_path;
  };

  // `console` must outlive this.
  explicit RankLogs(Console& console, LogColours colours = {});
  // Drains first.
  ~RankLogs();
  RankLogs(const RankLogs&) = delete;
  RankLogs& operator=(const RankLogs&) = delete;

  // Adds a rank. Returns an error if a file cannot be opened, and then closes the descriptors.
  absl::Status Add(const Rank& rank);

  // Returns the last lines of stderr, including everything that the rank has written so far.
  std::vector<std::string> StderrTail(int rank);

  // Returns whether a rank's stderr has shown this line on the terminal. From now on the terminal shows no such line,
  // because one report is enough and need not be repeated by every rank. The files still get it.
  bool WasShown(const std::string& line);

  // Keeps such a line off the terminal from now on when it arrives on its own, because it repeats what the launcher has
  // said.
  void Hush(const std::string& line);

  // Returns whether the terminal gets this rank's stderr.
  bool ShowsStderr(int rank);

  // Takes what the pipes contain now and forgets all ranks; must be called when the workers are gone. Does not wait for
  // the end of pipes that a daemon still holds.
  void Drain();

 private:
  struct Stream;
  struct Tail {
    LineTail lines;
    bool shown = false;  // on the terminal
  };

  void Loop();
  // Reads once; returns false at the end of the stream. kUrgent also takes what the terminal has no room for.
  bool Pump(Stream& stream, ConsoleWriter::Urgency urgency) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void PumpAll(int rank) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Console& console_;
  const LogColours colours_;
  absl::Mutex mutex_;
  std::list<Stream> streams_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> suppressed_lines_ ABSL_GUARDED_BY(mutex_);  // lines with their "\n"
  std::map<int, Tail> tails_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  int wake_fd_;
  std::thread thread_;
};

}  // namespace composer
