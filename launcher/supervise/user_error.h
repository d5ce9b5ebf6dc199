// Decides whether only a user can fix a failure. Pure. Our own workers report that by their exit code (64); of other
// programs we know only the last line of stderr and the code.
//   Python: an exception whose name means "the program or its arguments are wrong" (NameError, ImportError, …; not
//           OSError, RuntimeError or torch's own, which can have transient causes)
//   argparse and most C programs: "usage:" or "error: unrecognized …" with exit code 2
//   a shell: 126 and 127, no such command
// A single occurrence may still be an accident (a file that is not there yet), so the restart policy requires two.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/strings/string_view.h"
#include "base/process.h"

namespace composer {

// Returns the error's text, to be compared with the next one; empty if it is not such an error.
std::string UserError(const ExitStatus& status, absl::string_view last_line);

}  // namespace composer
