// SPDX-License-Identifier: Apache-2.0
#include "launcher/console.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace composer {

void Tell(absl::string_view text) {
  const std::string line = absl::StrCat("composer: ", absl::StripSuffix(text, "\n"), "\n");
  [[maybe_unused]] const ssize_t ignored = write(STDERR_FILENO, line.data(), line.size());
}

bool WantsColour(bool is_terminal, const Environment& environment) {
  if (!environment.GetOr("NO_COLOR", "").empty()) return false;
  const std::string force = environment.GetOr("CLICOLOR_FORCE", "");
  if (!force.empty() && force != "0") return true;
  return is_terminal && environment.GetOr("TERM", "") != "dumb";
}

int TerminalColumns() {
  winsize size = {};
  if (isatty(STDERR_FILENO) == 0) return 0;
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
  return size.ws_col;
}

}  // namespace composer
