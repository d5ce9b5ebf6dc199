// SPDX-License-Identifier: Apache-2.0
#include "launcher/workers/worker_exit.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace composer {
namespace {

constexpr absl::string_view kErrorStep = "step ";
constexpr size_t kMaxErrorText = 300;  // bytes of a reported error that are compared
constexpr size_t kMaxSaid = 200;       // bytes of a worker's last line that a reason repeats

bool IsFailure(const WorkerExit& exit) {
  if (!exit.hang.empty() || !exit.lost.empty()) return true;
  return !exit.ended_by_us && !exit.after_news && !exit.status.ok() && exit.status.code != exit_code::kPreempted;
}

bool IsCollateralLooking(const WorkerExit& exit) { return exit.status.code == exit_code::kUnavailable; }

}  // namespace

bool AllEndedWith(absl::Span<const WorkerExit> exits, std::initializer_list<int> codes) {
  return std::all_of(exits.begin(), exits.end(), [&](const WorkerExit& exit) {
    return exit.status.signal == 0 && std::find(codes.begin(), codes.end(), exit.status.code) != codes.end();
  });
}

int FirstCause(absl::Span<const WorkerExit> exits, bool* certain) {
  int collateral = -1;
  for (size_t i = 0; i < exits.size(); ++i) {
    if (!IsFailure(exits[i])) continue;
    if (!IsCollateralLooking(exits[i])) {
      if (certain != nullptr) *certain = true;
      return static_cast<int>(i);
    }
    if (collateral < 0) collateral = static_cast<int>(i);
  }
  if (certain != nullptr) *certain = false;
  return collateral;
}

std::string RoleOf(absl::Span<const WorkerExit> exits, int index, int first_cause) {
  const WorkerExit& exit = exits[index];
  if (index == first_cause) return "first cause";
  if (!exit.hang.empty()) return "collateral: it waited for others and was ended";
  if (!exit.lost.empty()) return "collateral: it ended with the process that had started it";
  if (exit.ended_by_us) return "collateral: ended by the launcher";
  if (exit.status.ok()) return "done";
  if (exit.status.signal == 0 && exit.status.code == exit_code::kPreempted) return "preempted";
  if (IsCollateralLooking(exit)) return "collateral: its peers were gone (69)";
  return "collateral: it failed after the first cause";
}

std::string HowItEnded(const WorkerExit& exit) {
  if (!exit.hang.empty()) return absl::StrCat("hung: ", exit.hang);
  return exit.lost.empty() ? exit.status.ToString() : absl::StrCat("was lost: ", exit.lost);
}

std::string ReportedError(int64_t step, absl::string_view message) {
  return absl::StrCat(kErrorStep, step, ": ", message.substr(0, message.find('\n')).substr(0, kMaxErrorText));
}

std::string PlaceOfError(absl::string_view error) {
  const bool has_step = absl::StartsWith(error, kErrorStep);
  return has_step ? absl::StrCat("at ", error.substr(0, error.find(':'))) : "in the program";
}

std::string DescribeExit(const WorkerExit& exit) {
  std::string text = absl::StrCat("rank ", exit.rank, " ", HowItEnded(exit));
  if (!exit.hang.empty() || !exit.lost.empty()) return text;
  if (!exit.kill.empty()) absl::StrAppend(&text, ": ", exit.kill);
  if (exit.status.signal == 0 && exit.status.code != 0 && !exit.last_line.empty()) {
    absl::StrAppend(&text, ": ", absl::string_view(exit.last_line).substr(0, kMaxSaid));
  }
  return text;
}

}  // namespace composer
