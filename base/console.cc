// SPDX-License-Identifier: Apache-2.0
#include "base/console.h"

#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <string>

#include "absl/base/const_init.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/synchronization/mutex.h"
#include "base/log.h"
#include "base/option_help.h"
#include "base/printable.h"

namespace composer {
namespace {

constexpr size_t kWideHelp = 110;  // longer lines are hard to read

// The process has one stderr, and so one writer for it: those who write there know nothing of each other.
absl::Mutex g_mutex(absl::kConstInit);
ConsoleWriter* g_stderr ABSL_GUARDED_BY(g_mutex) = nullptr;

void WriteLine(absl::string_view line) {
  {
    absl::MutexLock lock(&g_mutex);
    if (g_stderr != nullptr) {
      return g_stderr->Write(line, ConsoleWriter::Urgency::kUrgent, ConsoleWriter::Place::kNewLine);
    }
  }
  [[maybe_unused]] const ssize_t ignored = write(STDERR_FILENO, line.data(), line.size());
}

bool AreOneFile(int a, int b) {
  struct stat one{}, other{};
  return fstat(a, &one) == 0 && fstat(b, &other) == 0 && one.st_dev == other.st_dev && one.st_ino == other.st_ino;
}

}  // namespace

void PrintToUser(absl::string_view text) {
  WriteLine(absl::StrCat("composer: ", PrintableText(absl::StripSuffix(text, "\n")), "\n"));
}

void PrintErrorToUser(absl::string_view text) {
  const bool coloured = WantsColour(isatty(STDERR_FILENO) != 0, Environment::FromProcess());
  WriteLine(absl::StrCat(
      coloured ? "\033[31mcomposer:\033[0m " : "composer: ", PrintableText(absl::StripSuffix(text, "\n")), "\n"));
}

Console::Console()
    : err_(std::make_unique<ConsoleWriter>(STDERR_FILENO)),
      out_(AreOneFile(STDOUT_FILENO, STDERR_FILENO) ? nullptr : std::make_unique<ConsoleWriter>(STDOUT_FILENO)) {
  {
    absl::MutexLock lock(&g_mutex);
    g_stderr = err_.get();
  }
  SendLogsTo([](absl::string_view line) { WriteLine(line); });
}

Console::~Console() {
  SendLogsTo(nullptr);
  absl::MutexLock lock(&g_mutex);
  g_stderr = nullptr;
}

ConsoleWriter& Console::Of(int fd) { return fd == STDOUT_FILENO && out_ != nullptr ? *out_ : *err_; }

void Console::WakeWhenRoom(int wake_fd) {
  err_->WakeWhenRoom(wake_fd);
  if (out_ != nullptr) out_->WakeWhenRoom(wake_fd);
}

bool Console::Flush(absl::Duration patience, const std::function<bool()>& interrupted) {
  const bool written = out_ == nullptr || out_->Flush(patience, interrupted);
  if (!written) PrintToUser("the end of the output is missing: nobody read it in time");
  return err_->Flush(patience, interrupted) && written;
}

bool WantsColour(bool is_terminal, const Environment& environment) {
  if (!environment.GetOr("NO_COLOR", "").empty()) return false;
  const std::string force = environment.GetOr("CLICOLOR_FORCE", "");
  if (!force.empty() && force != "0") return true;
  return is_terminal && environment.GetOr("TERM", "") != "dumb";
}

std::string TerminalDevice() {
  char name[256] = {};
  return ttyname_r(STDERR_FILENO, name, sizeof(name)) == 0 ? name : "";
}

size_t HelpColumns() {
  winsize size = {};
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return kHelpColumns;
  return std::min<size_t>(size.ws_col, kWideHelp);
}

int TerminalColumns() {
  winsize size = {};
  if (isatty(STDERR_FILENO) == 0) return 0;
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
  return size.ws_col;
}

}  // namespace composer
