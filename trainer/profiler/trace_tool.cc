// SPDX-License-Identifier: Apache-2.0
#include "trainer/profiler/trace_tool.h"

#include <algorithm>

#include "base/file.h"
#include "trainer/profiler/trace_merge.h"

namespace composer {
namespace {

constexpr int kDone = 0, kUsageError = 64, kFailed = 70;
constexpr char kUsage[] =
    "usage: composer trace merge FOLDER [OUTPUT]\n\n"
    "Joins the traces of the ranks in a folder into one file, OUTPUT or\n"
    "FOLDER/merged_trace.json, for Perfetto and chrome://tracing.\n";

}  // namespace

int RunTraceTool(const std::vector<std::string>& args, std::ostream& out, std::ostream& err) {
  const bool wants_help =
      std::any_of(args.begin(), args.end(), [](const std::string& arg) { return arg == "--help" || arg == "-h"; });
  if (wants_help || args.size() < 2 || args.size() > 3 || args[0] != "merge") {
    (wants_help ? out : err) << kUsage;
    return wants_help ? kDone : kUsageError;
  }
  const absl::StatusOr<std::vector<std::string>> traces = TracesIn(args[1]);
  if (!traces.ok() || traces->empty()) {
    err << "error: " << (traces.ok() ? "no traces of Composer's in " + args[1] : std::string(traces.status().message()))
        << "\n";
    return kUsageError;
  }
  const std::string output = args.size() > 2 ? args[2] : JoinPath(args[1], "merged_trace.json");
  if (const absl::Status status = MergeTraces(*traces, output); !status.ok()) {
    err << "error: " << status.message() << "\n";
    return kFailed;
  }
  out << "merged " << traces->size() << " traces into " << output << "\n";
  return kDone;
}

}  // namespace composer
