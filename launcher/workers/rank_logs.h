// Where the output of the workers goes: to a file for each rank, and to the launcher's own stdout and stderr.
//
// - Files get whole lines, stdout and stderr together, each line unbroken, of what is redrawn in place one line now and then
//   (line_splitter.h); they are appended to.
// - A stream may have a file of its own too, which gets its bytes as they come (--stdout, --redirects).
// - kRaw passes bytes through as they come, so that a progress bar with \r works. kPrefixed shows whole lines with
//   "[rank] " before them. kHidden shows nothing.
// - The last lines of stderr stay in memory for the failure message.
// A thread of its own moves the bytes, and the console's writes to the terminal. A terminal that does not read blocks
// nobody where a file keeps the output; output that no file keeps is left in its pipe until the terminal reads again, so
// that nothing is lost and only its own program waits.
// Threads: all methods may be called from any thread.
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

// "[3] ", in a colour of the rank's when `coloured`; neighbours differ. Pure.
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
    int stdout_fd = -1;  // read ends of pipes; RankLogs owns them from here on
    int stderr_fd = -1;
    std::string log_path;  // "": no file
    Show show = Show::kRaw;
    Show stderr_show = Show::kRaw;
    std::string stdout_path;  // a file for this stream alone, byte for byte; "": none
    std::string stderr_path;
  };

  // `console` outlives this.
  explicit RankLogs(Console& console, LogColours colours = {});
  // Drains first.
  ~RankLogs();
  RankLogs(const RankLogs&) = delete;
  RankLogs& operator=(const RankLogs&) = delete;

  // Errors: those of the files; the descriptors are closed then.
  absl::Status Add(const Rank& rank);

  // Last lines of stderr, with everything that the rank has written until now.
  std::vector<std::string> StderrTail(int rank);

  // Whether a rank's stderr has shown this line on the terminal. From now on none does: what is said once need not be read
  // again from every rank. The files get it all the same.
  bool WasShown(const std::string& line);

  // The terminal shows such a line no more, when it comes by itself: it says what the launcher has said.
  void Hush(const std::string& line);

  // Whether the terminal gets this rank's stderr.
  bool ShowsStderr(int rank);

  // Takes what the pipes hold now and forgets all ranks; call when the workers are gone. Does not wait for the ends of
  // pipes that a daemon still holds.
  void Drain();

 private:
  struct Stream;
  struct Tail {
    LineTail lines;
    bool shown = false;  // on the terminal
  };

  void Loop();
  // Reads once; false at the end of the stream. kUrgent: also what the terminal has no room for.
  bool Pump(Stream& stream, ConsoleWriter::Urgency urgency) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void PumpAll(int rank) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  Console& console_;
  const LogColours colours_;
  absl::Mutex mutex_;
  std::list<Stream> streams_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> hushed_ ABSL_GUARDED_BY(mutex_);  // lines with their ends
  std::map<int, Tail> tails_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  int wake_fd_;
  std::thread thread_;
};

}  // namespace composer
