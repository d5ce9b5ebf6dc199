// Is this failure one that only a user can mend? Pure. Our own workers say so by their exit code (64); of other programs we
// know the last line of stderr and the code.
//   Python: the exception's name, of those that say "the program or its arguments are wrong" (NameError, ImportError, …;
//           not OSError, RuntimeError or torch's own, which the weather can cause)
//   argparse and most C programs: "usage:" or "error: unrecognized …" with exit code 2
//   a shell: 126 and 127, no such command
// Seen once it may still be an accident (a file that is not there yet); the restart policy asks for it twice.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "base/process.h"

namespace composer {

// The error's text, to be compared with the next one; empty: not such an error.
std::string UserError(const ExitStatus& status, absl::string_view last_line);

}  // namespace composer
