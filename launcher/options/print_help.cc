// SPDX-License-Identifier: Apache-2.0
#include "launcher/options/print_help.h"

#include <cstdio>

#include "base/console.h"
#include "contract/exit_code.h"

namespace composer {

int PrintHelp(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  return std::fflush(stdout) == 0 ? exit_code::kDone : exit_code::kFailure;
}

int UserError(absl::string_view message) {
  PrintErrorToUser(message);
  return exit_code::kUserError;
}

}  // namespace composer
