// SPDX-License-Identifier: Apache-2.0
#include "launcher/console.h"

#include <unistd.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace composer {

void Tell(absl::string_view text) {
  const std::string line = absl::StrCat("composer: ", absl::StripSuffix(text, "\n"), "\n");
  [[maybe_unused]] const ssize_t ignored = write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace composer
