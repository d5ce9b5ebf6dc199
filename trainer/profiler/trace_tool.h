// `composer_worker trace merge FOLDER [OUTPUT]` joins the traces of all ranks and windows in a folder, for instance one
// into which those of several nodes were copied. The default OUTPUT is FOLDER/merged_trace.json.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ostream>
#include <string>
#include <vector>

namespace composer {

// `args` excludes the program and `trace`: {"merge", "folder"}. Returns the exit code: 0 done; 64 usage, or nothing to
// merge; 70 a file is damaged or cannot be written.
int RunTraceTool(const std::vector<std::string>& args, std::ostream& out, std::ostream& err);

}  // namespace composer
