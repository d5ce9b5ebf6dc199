// Runs FilesOfWeightIndex, ParseByteSize and ParseRenameRule on arbitrary text. A file that is named must lie beside
// the index.
// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "checkpoint/tools/weight_names.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  for (const std::string& json : {std::string(text), absl::StrCat("{\"weight_map\":{\"a\":", text, "}}")}) {
    const auto files = composer::FilesOfWeightIndex(json);
    if (!files.ok()) continue;
    for (const std::string& file : *files) {
      if (file.empty() || file[0] == '.' || file.find('/') != std::string::npos) std::abort();
    }
  }
  const auto bytes = composer::ParseByteSize(text);
  if (bytes.ok() && *bytes < 1) std::abort();
  const auto rule = composer::ParseRenameRule(text);
  if (rule.ok() && absl::StrCat(rule->from, "=", rule->to) != text) std::abort();
  return 0;
}
