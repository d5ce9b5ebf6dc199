// SPDX-License-Identifier: Apache-2.0
#include "launcher/failure_message.h"

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"

namespace composer {

std::string DescribeFailure(const FailureReport& report) {
  const std::string what =
      report.exit.hang.empty() ? report.exit.status.ToString() : absl::StrCat("hung: ", report.exit.hang);
  std::string text = absl::StrCat("rank ", report.exit.rank, " on ", report.node, " (pid ", report.pid, ") ", what);
  if (!report.last_word.empty()) absl::StrAppend(&text, ": ", report.last_word);
  std::string tail;
  for (const std::string& line : report.stderr_tail) {
    const absl::string_view said = absl::StripPrefix(line, "error: ");
    const bool repeats = !said.empty() && absl::StrContains(report.last_word, said);  // the last word, printed too
    if (!repeats) absl::StrAppend(&tail, "\n  | ", line);
  }
  if (!tail.empty()) absl::StrAppend(&text, "\n  the last lines of its stderr:", tail);
  if (!report.log_path.empty()) absl::StrAppend(&text, "\n  its log: ", report.log_path);
  return text;
}

proto::FailureCause ToProto(const FailureReport& report, const std::string& node_id, absl::Time when) {
  proto::FailureCause cause;
  cause.set_node_id(node_id);
  cause.set_rank(report.exit.rank);
  cause.set_exit_code(report.exit.status.code);
  cause.set_signal(report.exit.status.signal);
  cause.set_message(DescribeExit(report.exit));
  cause.set_unix_micros(absl::ToUnixMicros(when));
  cause.set_stderr_tail(absl::StrJoin(report.stderr_tail, "\n"));
  return cause;
}

}  // namespace composer
