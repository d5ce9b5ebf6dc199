// SPDX-License-Identifier: Apache-2.0
#include "launcher/process/kill_evidence.h"

#include <signal.h>

#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace composer {
namespace {

constexpr int kShellSigkill = 128 + SIGKILL;
constexpr size_t kMaxCommandBytes = 15;

std::string Size(int64_t bytes) {
  constexpr double kGiB = 1 << 30, kMiB = 1 << 20;
  const auto size = static_cast<double>(bytes);
  return size >= kGiB ? absl::StrFormat("%.1f GiB", size / kGiB) : absl::StrFormat("%.0f MiB", size / kMiB);
}

std::string Held(const KillEvidence& evidence) {
  int64_t bytes = evidence.resident_bytes;
  if (evidence.named.has_value() && evidence.named->anonymous_kib >= 0) bytes = evidence.named->anonymous_kib * 1024;
  return bytes > 0 ? absl::StrCat(", it held ", Size(bytes)) : "";
}

bool CounterRose(const KillEvidence& evidence) {
  return evidence.oom_kills_before.has_value() && evidence.oom_kills_now.has_value() &&
         *evidence.oom_kills_now > *evidence.oom_kills_before;
}

KillVerdict OutOfMemory(const KillEvidence& evidence) {
  const char* where = !evidence.named.has_value() ? "of the node or its cgroup"
                      : evidence.named->cgroup    ? "of its cgroup"
                                                  : "of the node";
  const char* source = evidence.named.has_value() ? "kernel log" : "cgroup's oom_kill counter";
  return {Killer::kOutOfMemory, absl::StrCat("out of memory: the kernel killed it, the memory ", where, " was used up",
                                             Held(evidence), " (", source, ")")};
}

KillVerdict WithoutEvidence(const KillEvidence& evidence) {
  const bool looked =
      evidence.kernel_log_read || (evidence.oom_kills_before.has_value() && evidence.oom_kills_now.has_value());
  if (looked) return {Killer::kSomeone, "not by the launcher and not for lack of memory: someone else sent it"};
  if (evidence.available_bytes >= 0 && evidence.available_bytes < kNearlyFullBytes) {
    return {Killer::kPerhapsOutOfMemory,
            absl::StrCat("probably out of memory: ", Size(evidence.available_bytes), " are left", Held(evidence))};
  }
  return {Killer::kUnknown, "not by the launcher; this host does not show whether for lack of memory"};
}

// Returns the number that follows `name`, as in "anon-rss:123kB"; -1 if there is none.
int64_t NumberAfter(absl::string_view text, absl::string_view name) {
  const size_t at = text.find(name);
  if (at == absl::string_view::npos) return -1;
  absl::string_view digits = text.substr(at + name.size());
  size_t length = 0;
  while (length < digits.size() && absl::ascii_isdigit(static_cast<unsigned char>(digits[length]))) ++length;
  int64_t value = -1;
  return absl::SimpleAtoi(digits.substr(0, length), &value) ? value : -1;
}

}  // namespace

KillVerdict JudgeKill(const KillEvidence& evidence) {
  const bool sigkill = evidence.status.signal == SIGKILL || evidence.status.code == kShellSigkill;
  if (sigkill && evidence.sent_by_us) return {Killer::kOurs, ""};
  if (sigkill && (evidence.named.has_value() || CounterRose(evidence))) return OutOfMemory(evidence);
  if (sigkill) return WithoutEvidence(evidence);
  if (!evidence.status.ok() && !evidence.sent_by_us && CounterRose(evidence)) {
    const std::string who = evidence.other.has_value()
                                ? absl::StrCat(evidence.other->command, " (pid ", evidence.other->pid, ")")
                                : "a process of this job";
    return {Killer::kHelperOutOfMemory, absl::StrCat("out of memory: the kernel had killed ", who)};
  }
  if (evidence.status.signal == SIGXFSZ)
    return {Killer::kNobody, "a file grew beyond the limit that composer was started with (ulimit -f)"};
  if (evidence.status.signal == SIGXCPU)
    return {Killer::kNobody, "it computed longer than the limit that composer was started with (ulimit -t)"};
  return {};
}

std::optional<OomKill> ParseKernelRecord(absl::string_view record) {
  const size_t semicolon = record.find(';');
  int64_t priority = 0;
  const absl::string_view head = record.substr(0, record.find(','));
  if (semicolon == absl::string_view::npos || !absl::SimpleAtoi(head, &priority)) return std::nullopt;
  if (priority < 0 || (priority >> 3) != 0) return std::nullopt;  // facility 0 is the kernel's own
  const absl::string_view text = record.substr(semicolon + 1);
  constexpr absl::string_view kKilled = "Killed process ";
  const size_t at = text.find(kKilled);
  if (at == absl::string_view::npos || !absl::StrContains(absl::AsciiStrToLower(text.substr(0, at)), "out of memory")) {
    return std::nullopt;
  }
  OomKill kill;
  const int64_t pid = NumberAfter(text.substr(at), kKilled);
  if (pid <= 0 || pid > INT32_MAX) return std::nullopt;
  kill.pid = static_cast<int>(pid);
  kill.cgroup = absl::StrContains(text.substr(0, at), "cgroup");
  kill.anonymous_kib = NumberAfter(text, "anon-rss:");
  if (kill.anonymous_kib > INT64_MAX / 1024) kill.anonymous_kib = -1;
  const size_t open = text.find('(', at), close = text.find(')', at);
  if (open != absl::string_view::npos && close != absl::string_view::npos && close > open) {
    kill.command = std::string(text.substr(open + 1, std::min(close - open - 1, kMaxCommandBytes)));
  }
  return kill;
}

std::optional<int64_t> ParseOomKills(absl::string_view text) {
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    int64_t count = 0;
    if (absl::ConsumePrefix(&line, "oom_kill ") && absl::SimpleAtoi(line, &count) && count >= 0) return count;
  }
  return std::nullopt;
}

std::optional<MemoryCgroup> ParseMemoryCgroup(absl::string_view text) {
  std::optional<MemoryCgroup> unified;
  for (const absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    const std::vector<absl::string_view> fields = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (fields.size() != 3 || !absl::StartsWith(fields[2], "/")) continue;
    if (fields[0] == "0" && fields[1].empty()) unified = {.v2 = true, .path = std::string(fields[2])};
    for (const absl::string_view controller : absl::StrSplit(fields[1], ',')) {
      if (controller == "memory") return MemoryCgroup{.v2 = false, .path = std::string(fields[2])};
    }
  }
  return unified;
}

int64_t ParseAvailableMemory(absl::string_view text) {
  const size_t at = text.find("MemAvailable:");
  if (at == absl::string_view::npos) return -1;
  const absl::string_view number = absl::StripLeadingAsciiWhitespace(text.substr(at + 13));
  const int64_t kib = NumberAfter(number, "");
  return kib < 0 || kib > INT64_MAX / 1024 ? -1 : kib * 1024;
}

}  // namespace composer
