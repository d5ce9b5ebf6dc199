// SPDX-License-Identifier: Apache-2.0
#include "trainer/profiler/trace_handler.h"

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/status_macros.h"
#include "trainer/profiler/window_trace.h"

namespace composer {

absl::Status TensorBoardTraceHandler::Take(const RecordedWindow& recorded) {
  const std::string folder = FillName(folder_, recorded.names);
  RETURN_IF_ERROR(MakeDirs(folder));
  TraceFileHeader header = recorded.header;
  header.with_profiler_steps = true;
  return WriteTrace(
      recorded.window, header,
      JoinPath(folder, absl::StrCat("rank", header.rank, ".", recorded.window.begin_ns, ".pt.trace.json")));
}

}  // namespace composer
