// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/failure_message.h"

#include <algorithm>
#include <map>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"

namespace composer {
namespace {

constexpr size_t kShownLines = 12;  // of stderr; the log has all lines
constexpr size_t kShownColumns = 200;
constexpr int kMaxCount = 1'000'000'000;

// Returns the lines to show, without those that merely repeat the last word.
std::vector<std::string> ShownLines(const FailureReport& report) {
  std::vector<std::string> shown;
  for (const std::string& line : report.stderr_tail) {
    const absl::string_view said = absl::StripPrefix(line, "error: ");
    const bool repeats = !said.empty() && absl::StrContains(report.last_word, said);
    if (!repeats)
      shown.push_back(line.size() <= kShownColumns ? line : absl::StrCat(line.substr(0, kShownColumns), "…"));
  }
  if (shown.size() > kShownLines) shown.erase(shown.begin(), shown.end() - kShownLines);
  return shown;
}

bool MissesModule(const FailureReport& report) {
  return absl::StartsWith(report.exit.last_line, "ModuleNotFoundError:") ||
         absl::StartsWith(report.exit.last_line, "ImportError:");
}

}  // namespace

std::string DescribeFailure(const FailureReport& report) {
  std::string text =
      absl::StrCat("rank ", report.exit.rank, " on ", report.node, " (pid ", report.pid, ") ", HowItEnded(report.exit));
  if (!report.exit.kill.empty() && report.exit.hang.empty()) absl::StrAppend(&text, ": ", report.exit.kill);
  if (!report.last_word.empty()) absl::StrAppend(&text, ": ", report.last_word);
  std::string tail;
  for (const std::string& line : ShownLines(report)) absl::StrAppend(&tail, "\n  | ", line);
  if (!tail.empty()) absl::StrAppend(&text, "\n  the last lines of its stderr:", tail);
  if (!report.python.empty() && MissesModule(report)) absl::StrAppend(&text, "\n  it ran under ", report.python);
  if (!report.log_path.empty()) absl::StrAppend(&text, "\n  its log: ", report.log_path);
  return text;
}

std::string DescribeRanks(std::vector<int> ranks) {
  std::sort(ranks.begin(), ranks.end());
  std::string text;
  for (size_t first = 0; first < ranks.size();) {
    size_t last = first;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    absl::StrAppend(&text, text.empty() ? "" : ", ", ranks[first]);
    if (last > first) absl::StrAppend(&text, last == first + 1 ? ", " : "-", ranks[last]);
    first = last + 1;
  }
  return text;
}

std::string DescribeCollateral(absl::Span<const WorkerExit> exits, int first_cause) {
  std::map<std::string, std::vector<int>> by_role;
  for (int i = 0; i < static_cast<int>(exits.size()); ++i) {
    const std::string role = RoleOf(exits, i, first_cause);
    absl::string_view why = role;
    if (absl::ConsumePrefix(&why, "collateral: ")) by_role[std::string(why)].push_back(exits[i].rank);
  }
  if (by_role.empty()) return "";
  std::vector<std::string> parts;
  for (const auto& [why, ranks] : by_role) {
    parts.push_back(absl::StrCat(ranks.size() == 1 ? "rank " : "ranks ", DescribeRanks(ranks), " (", why, ")"));
  }
  return absl::StrCat("collateral: ", absl::StrJoin(parts, ", "));
}

proto::FailureCause ToProto(const FailureReport& report, const std::string& node_id, bool certain, absl::Time when) {
  proto::FailureCause cause;
  cause.set_node_id(node_id);
  cause.set_rank(report.exit.rank);
  cause.set_exit_code(report.exit.status.code);
  cause.set_signal(report.exit.status.signal);
  cause.set_message(DescribeExit(report.exit));
  cause.set_collateral(!certain);
  cause.set_unix_micros(absl::ToUnixMicros(when));
  cause.set_stderr_tail(absl::StrJoin(report.stderr_tail, "\n"));
  return cause;
}

proto::RestartTally ToProto(const RestartTally& tally) {
  proto::RestartTally message;
  message.set_spent(tally.spent);
  message.set_start_spent(tally.start_spent);
  message.set_restarts(tally.restarts);
  message.set_stalls(tally.stalls);
  message.set_trained_world(tally.trained_world);
  message.set_user_error(tally.user_error);
  return message;
}

RestartTally FromProto(const proto::RestartTally& tally) {
  return {.spent = std::clamp(tally.spent(), 0, kMaxCount),
          .start_spent = std::clamp(tally.start_spent(), 0, kMaxCount),
          .restarts = std::clamp(tally.restarts(), 0, kMaxCount),
          .stalls = std::clamp(tally.stalls(), 0, kMaxCount),
          .trained_world = std::clamp(tally.trained_world(), 0, kMaxCount),
          .user_error = tally.user_error()};
}

proto::Verdict ToProto(const Verdict& verdict) {
  proto::Verdict message;
  message.set_next(verdict.next == NextStep::kRestart ? proto::Verdict::RESTART : proto::Verdict::GIVE_UP);
  message.set_exit_code(verdict.exit_code);
  *message.mutable_tally() = ToProto(verdict.tally);
  message.set_decision(verdict.decision);
  return message;
}

RemoteEnd FromProto(const proto::FailureCause& cause) {
  RemoteEnd end = {.cause = cause.message(), .collateral = cause.collateral(), .verdict = std::nullopt};
  if (cause.rank() >= 0) absl::StrAppend(&end.cause, " (node ", cause.node_id(), ")");
  const proto::Verdict& verdict = cause.verdict();
  if (verdict.next() == proto::Verdict::UNKNOWN) return end;
  const bool possible = verdict.exit_code() > 0 && verdict.exit_code() < 256;
  const int exit_code = possible ? verdict.exit_code() : exit_code::kFailure;
  end.verdict = Verdict{.next = verdict.next() == proto::Verdict::RESTART ? NextStep::kRestart : NextStep::kGiveUp,
                        .exit_code = exit_code,
                        .first_cause = -1,
                        .tally = FromProto(verdict.tally()),
                        .reason = end.cause,
                        .decision = verdict.decision()};
  return end;
}

}  // namespace composer
