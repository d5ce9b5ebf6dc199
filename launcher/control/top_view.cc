// SPDX-License-Identifier: Apache-2.0
#include "launcher/control/top_view.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/machine_stats.h"
#include "base/printable.h"
#include "launcher/control/job_status.h"

namespace composer {
namespace {

std::vector<const proto::RankStatus*> SortedRanks(const proto::JobStatus& s) {
  std::map<int, const proto::RankStatus*> ranks;
  for (const proto::NodePlacement& member : s.members()) {
    for (const proto::RankStatus& rank : member.report().ranks()) ranks[rank.rank()] = &rank;
  }
  for (const proto::RankStatus& rank : s.ranks()) ranks[rank.rank()] = &rank;
  std::vector<const proto::RankStatus*> sorted;
  for (const auto& [number, rank] : ranks) sorted.push_back(rank);
  return sorted;
}

std::string Bytes(const std::optional<int64_t>& bytes) {
  if (!bytes.has_value()) return "-";
  return *bytes >= int64_t{1} << 30 ? absl::StrFormat("%.1fG", std::ldexp(static_cast<double>(*bytes), -30))
                                    : absl::StrFormat("%.0fM", std::ldexp(static_cast<double>(*bytes), -20));
}

std::string NumberOrDash(const std::optional<double>& number) {
  return number.has_value() && std::isfinite(*number) ? absl::StrFormat("%.3g", *number) : "-";
}

// Returns at most `columns` characters of a line, printable.
std::string Cut(absl::string_view line, int columns) {
  const std::string shown = Printable(line);
  size_t end = 0;
  for (int count = 0; end < shown.size(); ++end) {
    const bool begins = (static_cast<unsigned char>(shown[end]) & 0xC0U) != 0x80U;
    if (begins && count++ == columns) break;
  }
  return shown.substr(0, end);
}

std::string ShareOrDash(double share) { return std::isfinite(share) ? absl::StrFormat("%.0f%%", 100 * share) : "-"; }

std::string RankLine(const TopFrame& frame, const proto::RankStatus& rank, int64_t furthest) {
  const auto process = frame.processes.find(rank.rank());
  const RankProcess unknown;
  const RankProcess& known = process == frame.processes.end() ? unknown : process->second;
  const auto speed = frame.steps_per_second.find(rank.rank());
  return absl::StrFormat(
      "%c%5d %8d %-11s %9d %8s %9s %4s %5s %6s  %s", IsBehind(rank, furthest) ? '!' : ' ', rank.rank(), rank.pid(),
      rank.phase(), rank.step(),
      NumberOrDash(speed == frame.steps_per_second.end() ? std::nullopt : std::optional<double>(speed->second)),
      NumberOrDash(rank.loss()), ShareOrDash(rank.data_wait()), NumberOrDash(known.cpu), Bytes(known.resident_bytes),
      known.last_line);
}

std::vector<std::string> Head(const proto::JobStatus& s) {
  std::vector<std::string> lines = {
      absl::StrFormat("%s: %s, generation %d, %d rank%s on %d node%s, %d restart%s", s.job(), s.state(), s.generation(),
                      s.world_size(), s.world_size() == 1 ? "" : "s", s.nodes(), s.nodes() == 1 ? "" : "s",
                      s.restarts(), s.restarts() == 1 ? "" : "s"),
      absl::StrFormat("step %d, %d samples, %.3g steps/s, goodput %.1f %%", s.step(), s.samples(), s.steps_per_second(),
                      100 * s.goodput())};
  if (!s.last_checkpoint().empty()) lines.push_back(absl::StrCat("last checkpoint: ", s.last_checkpoint()));
  if (!s.last_cause().empty()) lines.push_back(absl::StrCat("last failure: ", s.last_cause()));
  return lines;
}

}  // namespace

int RanksOf(const proto::JobStatus& status) { return static_cast<int>(SortedRanks(status).size()); }

std::string RenderTop(const TopFrame& frame) {
  std::vector<std::string> lines = Head(frame.status);
  lines.emplace_back("");
  lines.push_back(absl::StrFormat(" %5s %8s %-11s %9s %8s %9s %4s %5s %6s  %s", "rank", "pid", "phase", "step",
                                  "steps/s", "loss", "wait", "cpus", "memory", "last line of its log"));
  const std::vector<const proto::RankStatus*> ranks = SortedRanks(frame.status);
  const int64_t furthest = FurthestStep(frame.status);
  const size_t room = static_cast<size_t>(std::max(1, frame.rows - static_cast<int>(lines.size()) - 2));
  const size_t first = std::min(static_cast<size_t>(std::max(0, frame.first)), ranks.size());
  const size_t end = std::min(ranks.size(), first + room);
  for (size_t i = first; i < end; ++i) lines.push_back(RankLine(frame, *ranks[i], furthest));
  lines.push_back(end - first < ranks.size()
                      ? absl::StrFormat("ranks %d to %d of %d: j and k scroll", first, end - 1, ranks.size())
                      : "");
  lines.push_back(frame.message.empty() ? "q quit  s save  p profile  t stacks of the threads  d drain  j/k scroll"
                                        : frame.message);
  std::string text;
  const size_t shown = std::min(lines.size(), static_cast<size_t>(std::max(1, frame.rows)));
  for (size_t i = 0; i < shown; ++i) absl::StrAppend(&text, i == 0 ? "" : "\n", Cut(lines[i], frame.columns));
  return text;
}

std::optional<ProcessTimes> ParseProcessTimes(absl::string_view proc_pid_stat) {
  const std::vector<absl::string_view> fields = FieldsOfProcStat(proc_pid_stat);
  int64_t user = 0, system = 0;
  ProcessTimes times;
  if (fields.size() < 22 || !absl::SimpleAtoi(fields[11], &user) || !absl::SimpleAtoi(fields[12], &system) ||
      !absl::SimpleAtoi(fields[21], &times.resident_pages))
    return std::nullopt;
  times.ticks = user + system;
  return times;
}

}  // namespace composer
