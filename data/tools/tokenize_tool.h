// `composer tokenize`: turns the lines that come in into tokens, or numbers of tokens back into text.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <istream>
#include <ostream>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace composer {

// `args` follow the word `tokenize`. Returns the exit code: 0, or 64 for a user's mistake.
int RunTokenizeTool(const std::vector<std::string>& args, std::istream& in, std::ostream& out, std::ostream& err);

// Opens a tokenizer to count the tokens of texts, without special tokens that are added to a text. Threads: any number.
absl::StatusOr<std::function<absl::StatusOr<int64_t>(absl::string_view text)>> OpenTokenCounter(
    const std::string& path);

}  // namespace composer
