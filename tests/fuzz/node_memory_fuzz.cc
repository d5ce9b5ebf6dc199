// Parses what a launcher reads about its previous process and its cgroups, on arbitrary bytes. Results must be within
// the limits, and what was accepted must survive being written and read again.
// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <cstdlib>

#include "launcher/process/job_cgroup.h"
#include "launcher/rendezvous/node_memory.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const absl::string_view text(reinterpret_cast<const char*>(data), size);
  const auto [id, record] = composer::ParseNodeMemory(text);
  if (!id.empty()) {
    const auto again = composer::ParseNodeMemory(composer::NodeMemoryText(id, record));
    if (again.first != id || again.second.generation() != record.generation()) std::abort();
  }
  if (const auto path = composer::UnifiedCgroup(text); path.has_value()) {
    if (path->empty() || (*path)[0] != '/' || path->find('\n') != std::string::npos) std::abort();
  }
  return 0;
}
