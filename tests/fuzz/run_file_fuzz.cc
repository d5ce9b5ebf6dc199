// Parses run files and /proc texts, which other processes of the user write.
// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "launcher/control/run_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto run = composer::ParseRunFile(text);
  if (run.ok()) {
    // What was read can be written and read again, except for bytes that are not UTF-8.
    const auto again = composer::ParseRunFile(composer::RunFileJson(*run));
    if (!again.ok() || again->pid != run->pid || again->pid_start != run->pid_start) std::abort();
    (void)composer::FindRun({*run}, run->job);
  }
  (void)composer::StartOf(text);
  return 0;
}
