// `composer tokenize`: turns the lines that come in into tokens, or numbers of tokens back into text.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <istream>
#include <ostream>
#include <string>
#include <vector>

namespace composer {

// `args` follow the word `tokenize`. Returns the exit code: 0, or 64 for a user's mistake.
int RunTokenizeTool(const std::vector<std::string>& args, std::istream& in, std::ostream& out, std::ostream& err);

}  // namespace composer
