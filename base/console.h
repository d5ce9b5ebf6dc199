// The launcher's stdout and stderr: its own messages to the user, which are lines on stderr that begin with "composer:
// ", and the output of the workers.
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

// Writes "composer: <text>\n" on a line of its own, not torn by the output of the workers. Escapes control characters,
// which text from elsewhere may contain. While a Console exists, the Console writes the line, and PrintToUser never
// waits for the terminal.
void PrintToUser(absl::string_view text);

// Writes both streams from threads: while it exists, neither PrintToUser nor LOG nor the output of the workers makes
// anybody wait for the terminal. There may be at most one at a time, and only after the last fork. Thread-safe.
class Console {
 public:
  Console();
  ~Console();
  Console(const Console&) = delete;
  Console& operator=(const Console&) = delete;

  // `fd` is STDOUT_FILENO or STDERR_FILENO. Returns the same writer for both when they are one file, so that their
  // order is kept.
  ConsoleWriter& Of(int fd);
  // See ConsoleWriter::WakeWhenRoom; applies to both streams.
  void WakeWhenRoom(int wake_fd);
  // Flushes both streams, see ConsoleWriter::Flush. Reports on stderr what stdout did not take.
  bool Flush(absl::Duration patience, const std::function<bool()>& interrupted = {});

 private:
  const std::unique_ptr<ConsoleWriter> err_;
  const std::unique_ptr<ConsoleWriter> out_;  // null: err_ writes stdout too
};

// Like PrintToUser, for errors: "composer:" is red where colour is wanted.
void PrintErrorToUser(absl::string_view text);

// Returns the columns of the terminal on stderr; 0 when stderr is not a terminal.
int TerminalColumns();
// Returns the device of that terminal, "/dev/pts/3"; "" when there is none or it is unknown.
std::string TerminalDevice();

// Returns the columns for --help on stdout: at most 110 on a terminal, 80 elsewhere.
size_t HelpColumns();

// Returns whether output to a stream may be coloured: on a terminal, unless NO_COLOR is set to something or TERM is
// dumb; elsewhere only if CLICOLOR_FORCE is set to something but 0. Pure.
bool WantsColour(bool is_terminal, const Environment& environment);

}  // namespace composer
