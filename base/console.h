// The launcher's stdout and stderr: what it says to people itself, lines on stderr that begin with "composer: ", and what
// the workers write.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "base/console_writer.h"
#include "base/env.h"

namespace composer {

// Writes "composer: <text>\n", on a line of its own and not torn by the output of the workers. Control characters, which
// text from elsewhere may hold, are escaped. While a Console exists it writes, and PrintToUser never waits for the terminal.
void PrintToUser(absl::string_view text);

// Both streams, written by threads: from its construction on neither PrintToUser nor LOG nor the output of the workers makes
// anybody wait for the terminal. At most one at a time; only after the last fork. Threads: all methods from any.
class Console {
 public:
  Console();
  ~Console();
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  // STDOUT_FILENO or STDERR_FILENO; the same writer when both are one file, so that their order stays.
  ConsoleWriter& Of(int fd);
  // See ConsoleWriter::WakeWhenRoom; either stream.
  void WakeWhenRoom(int wake_fd);
  // Both, see ConsoleWriter::Flush. What stdout did not take is told on stderr.
  bool Flush(absl::Duration patience, const std::function<bool()>& interrupted = {});

 private:
  const std::unique_ptr<ConsoleWriter> err_;
  const std::unique_ptr<ConsoleWriter> out_;  // null: err_ is its writer
};

// The same for what went wrong, with a red "composer:" where colour is wanted.
void PrintErrorToUser(absl::string_view text);

// Columns of the terminal on stderr; 0 when it is none.
int TerminalColumns();
// Its device, "/dev/pts/3"; "" when there is none or nobody knows.
std::string TerminalDevice();

// Columns for --help on stdout: at most 110 of a terminal, 80 elsewhere.
size_t HelpColumns();

// Whether what goes to a stream may be coloured: to a terminal, unless NO_COLOR is set to something or TERM is dumb;
// elsewhere only with CLICOLOR_FORCE set to something but 0. Pure.
bool WantsColour(bool is_terminal, const Environment& environment);

}  // namespace composer
