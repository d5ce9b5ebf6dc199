// SPDX-License-Identifier: Apache-2.0
#include "launcher/process/processor_wait.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/file.h"
#include "base/machine_stats.h"

namespace composer {
namespace {

constexpr int64_t kMaxFileBytes = 64 << 10;

}  // namespace

std::optional<ThreadTimes> ParseSchedstat(absl::string_view text) {
  const std::vector<absl::string_view> words = absl::StrSplit(text, absl::ByAnyChar(" \n"), absl::SkipWhitespace());
  int64_t ran = 0, waited = 0;
  if (words.size() < 3 || !absl::SimpleAtoi(words[0], &ran) || !absl::SimpleAtoi(words[1], &waited)) return {};
  if (ran < 0 || waited < 0) return std::nullopt;
  return ThreadTimes{.ran = absl::Nanoseconds(ran), .waited = absl::Nanoseconds(waited)};
}

ThreadTimesById ReadThreadTimes(pid_t pid) {
  ThreadTimesById result;
  const std::string tasks = absl::StrCat("/proc/", pid, "/task/");
  for (const std::string& name : ListDir(tasks).value_or(std::vector<std::string>())) {
    pid_t thread = 0;
    if (!absl::SimpleAtoi(name, &thread)) continue;
    auto times = ParseSchedstat(ReadFile(absl::StrCat(tasks, name, "/schedstat"), kMaxFileBytes).value_or(""));
    if (!times.has_value()) continue;  // the thread has ended meanwhile
    const std::string stat = ReadFile(absl::StrCat(tasks, name, "/stat"), kMaxFileBytes).value_or("");
    const std::vector<absl::string_view> fields = FieldsOfProcStat(stat);
    times->runnable = !fields.empty() && fields[0] == "R";
    result.emplace(thread, *times);
  }
  return result;
}

absl::Duration LongestWait(const ThreadTimesById& before, const ThreadTimesById& now, absl::Duration between) {
  absl::Duration longest;
  for (const auto& [thread, times] : now) {
    const auto it = before.find(thread);
    if (it == before.end()) continue;
    const bool still_waits = times.runnable && times == it->second;
    longest = std::max(longest, still_waits ? between : times.waited - it->second.waited);
  }
  return std::min(longest, between);
}

}  // namespace composer
