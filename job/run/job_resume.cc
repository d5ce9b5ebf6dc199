// SPDX-License-Identifier: Apache-2.0
#include "job/run/job_resume.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/time.h"
#include "base/file.h"
#include "base/format/json.h"
#include "base/random.h"
#include "base/status_macros.h"
#include "storage/identity/sigv4.h"

namespace composer {
namespace {

using Json = nlohmann::json;

constexpr int64_t kKeyBytes = 32;

// Returns "" when there is no key and none is to be made.
absl::StatusOr<std::string> KeyOfRun(const std::string& run_folder, bool make) {
  const std::string path = JoinPath(run_folder, ".config_key");
  absl::StatusOr<std::string> key = ReadFile(path, kKeyBytes);
  if (key.ok() && key->size() == kKeyBytes) return key;
  if (!make) return "";
  const std::string fresh = RandomBytes(kKeyBytes);
  RETURN_IF_ERROR(MakeDirs(run_folder));
  RETURN_IF_ERROR(AtomicWriteFile(path, fresh, {.mode = 0600}));
  return fresh;
}

// Hashes twice, so that nothing can be appended to what was hashed.
std::string KeyedHash(absl::string_view key, absl::string_view path, absl::string_view value) {
  const std::string inner = Sha256Hex({key, path, absl::string_view("\0", 1), value});
  return Sha256Hex({key, inner}).substr(0, 32);
}

// Converts "2026-11-22T12:01:07Z" to "2026-11-22 12:01:07 UTC"; returns text of another form unchanged.
std::string Date(const std::string& saved_at) {
  absl::Time time;
  if (!absl::ParseTime(absl::RFC3339_full, saved_at, &time, nullptr)) return saved_at;
  return absl::FormatTime("%Y-%m-%d %H:%M:%S UTC", time, absl::UTCTimeZone());
}

absl::Status Refused(const ResumePoint& point, const std::vector<ConfigChange>& changes) {
  std::vector<std::string> tops;
  for (const ConfigChange& change : changes) {
    const std::string top = change.path.substr(0, change.path.find('.'));
    if (std::find(tops.begin(), tops.end(), top) == tops.end()) tops.push_back(top);
  }
  return absl::InvalidArgumentError(
      absl::StrCat(tops[0], ": cannot resume from ", point.location, " of ", Date(point.saved_at),
                   ", whose state belongs to other settings: ", DescribeChanges(changes),
                   "; set these back, start a new run (another run_name), or permit it by resume_changes: [",
                   absl::StrJoin(tops, ", "), "]"));
}

}  // namespace

absl::StatusOr<KeptConfig> KeepConfigOfRun(const ConfigNode& effective, const std::string& run_folder, bool make_key) {
  std::string key;
  KeptConfig kept = KeepConfig(effective, [](absl::string_view, absl::string_view) { return ""; });
  if (kept.hashes.empty()) return kept;
  ASSIGN_OR_RETURN(key, KeyOfRun(run_folder, make_key));
  kept = KeepConfig(effective,
                    [&](absl::string_view path, absl::string_view value) { return KeyedHash(key, path, value); });
  if (key.empty()) kept.hashes.clear();
  // This hash identifies the key, so that hashes made with another key are recognised.
  if (!key.empty()) kept.hashes[""] = KeyedHash(key, "", "");
  return kept;
}

std::string SerializeKept(const KeptConfig& kept) {
  const Json json = {{"settings", kept.settings}, {"hashes", kept.hashes}};
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

absl::StatusOr<KeptConfig> ParseKept(const std::string& text) {
  const Json json = ParseJson(text);
  KeptConfig kept;
  const auto read = [&](const char* member, std::map<std::string, std::string>& values) {
    if (!json.is_object() || !json.contains(member) || !json[member].is_object()) return false;
    for (const auto& [path, value] : json[member].items()) {
      if (!value.is_string()) return false;
      values[path] = value.get<std::string>();
    }
    return true;
  };
  if (!read("settings", kept.settings) || !read("hashes", kept.hashes))
    return absl::DataLossError("the checkpoint's configuration cannot be read");
  return kept;
}

absl::StatusOr<std::string> JudgeResume(const ResumePoint& point, const KeptConfig& now,
                                        const std::vector<std::string>& resume_changes) {
  std::string said =
      absl::StrCat("resuming from ", BaseName(point.location),
                   point.saved_at.empty() ? "" : absl::StrCat(" of ", Date(point.saved_at)), " (", point.location, ")");
  if (point.configuration.empty()) return said;
  ASSIGN_OR_RETURN(KeptConfig before, ParseKept(point.configuration));
  const auto key_of = [](const KeptConfig& kept) { return kept.hashes.count("") == 0 ? "" : kept.hashes.at(""); };
  if (key_of(before) != key_of(now)) before.hashes.clear();
  std::vector<ConfigChange> told, refused;
  for (ConfigChange& change : CompareConfigs(before, now)) {
    if (change.kind == ChangeClass::kHarmless) continue;
    if (change.kind == ChangeClass::kMeaningless && !MayChange(resume_changes, change.path)) refused.push_back(change);
    told.push_back(std::move(change));
  }
  if (!refused.empty()) return Refused(point, refused);
  if (!told.empty()) absl::StrAppend(&said, "; changed since: ", DescribeChanges(told));
  return said;
}

bool HasEnded(const std::string& run_folder) {
  constexpr int64_t kLargestSummary = 64 << 20;
  const absl::StatusOr<std::string> text = ReadFile(JoinPath(run_folder, "summary.json"), kLargestSummary);
  if (!text.ok()) return false;
  const Json json = ParseJson(*text);
  return json.is_object() && json.contains("exit_reason") && json["exit_reason"] == "done";
}

}  // namespace composer
