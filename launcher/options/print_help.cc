// SPDX-License-Identifier: Apache-2.0
#include "launcher/options/print_help.h"

#include <cstdio>

#include "contract/exit_code.h"

namespace composer {

int PrintHelp(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  return std::fflush(stdout) == 0 ? exit_code::kDone : exit_code::kFailure;
}

}  // namespace composer
