// Writes a window as a trace file: the rank is the process; its batches, threads and the streams of its GPU are the
// rows. Spans and LibTorch's operators share a thread's row, so that an operator lies below the part of the step that
// ran it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/status/status.h"
#include "trainer/profiler/timeline.h"
#include "trainer/profiler/trace_file.h"

namespace composer {

absl::Status WriteTrace(const Window& window, const TraceFileHeader& header, const std::string& path);

}  // namespace composer
