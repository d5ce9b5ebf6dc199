// Parses Slurm's lists on arbitrary bytes. Results must be within the limits, and must be plain names which, joined by
// commas, parse to the same list.
// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <cstdlib>

#include "absl/strings/str_join.h"
#include "launcher/platform/slurm_nodelist.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto names = composer::ParseNodeList(text); names.ok()) {
    if (names->empty() || names->size() > composer::kMaxSlurmNodes) std::abort();
    for (const std::string& name : *names) {
      if (name.empty() || name.find_first_of("[], \n") != std::string::npos) std::abort();
    }
    if (names->size() < 1000) {
      const auto again = composer::ParseNodeList(absl::StrJoin(*names, ","));
      if (!again.ok() || *again != *names) std::abort();
    }
  }
  if (const auto counts = composer::ParseTasksPerNode(text); counts.ok()) {
    if (counts->empty() || counts->size() > composer::kMaxSlurmNodes) std::abort();
    for (const int count : *counts) {
      if (count < 1) std::abort();
    }
  }
  return 0;
}
