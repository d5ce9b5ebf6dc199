// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/time.h"
#include "base/status_macros.h"
#include "checkpoint/folder/cleanup.h"
#include "checkpoint/folder/verify.h"
#include "checkpoint/tools/commands.h"

namespace composer {
namespace {

struct Listed {
  std::string name;
  Manifest manifest;    // empty when it is damaged
  std::string problem;  // "" if none was found
};

// Does not read the tensors: only the manifest, and whether its files exist with the right lengths.
Listed Look(ObjectStore& store, const std::string& name) {
  absl::StatusOr<Manifest> manifest = ReadManifest(store, name);
  if (!manifest.ok()) return {name, {}, std::string(manifest.status().message())};
  Listed listed{name, *std::move(manifest), ""};
  for (const FileEntry& file : listed.manifest.files) {
    const std::string key = absl::StrCat(AttemptKey(name, listed.manifest.attempt), "/", file.name);
    const absl::StatusOr<int64_t> size = store.Size(key);
    if (!size.ok()) {
      listed.problem = std::string(size.status().message());
    } else if (*size != file.bytes) {
      listed.problem = absl::StrCat(store.Location(key), ": has ", *size, " of ", file.bytes, " bytes");
    }
  }
  return listed;
}

Listed Verify(ObjectStore& store, const std::string& name) {
  VerifyResult verdict = VerifyCheckpoint(store, name);
  if (!verdict.unknown.ok()) return {name, {}, std::string(verdict.unknown.message())};
  return {name, std::move(verdict.manifest),
          verdict.problems.empty() ? "" : std::string(verdict.problems[0].message())};
}

// Returns "3d 4h", "5m 12s"; "" for a time that is not RFC 3339 or lies ahead.
std::string Age(const std::string& saved_at, absl::Time now) {
  absl::Time saved;
  std::string error;
  if (!absl::ParseTime(absl::RFC3339_full, saved_at, &saved, &error) || saved > now) return "";
  const int64_t seconds = absl::ToInt64Seconds(now - saved);
  if (seconds >= 86400) return absl::StrFormat("%dd %dh", seconds / 86400, seconds % 86400 / 3600);
  if (seconds >= 3600) return absl::StrFormat("%dh %dm", seconds / 3600, seconds % 3600 / 60);
  return seconds >= 60 ? absl::StrFormat("%dm %ds", seconds / 60, seconds % 60) : absl::StrFormat("%ds", seconds);
}

nlohmann::json AsJson(const ObjectStore& store, const Listed& listed, bool verified) {
  const Manifest& manifest = listed.manifest;
  nlohmann::json json = {{"name", listed.name},
                         {"location", store.Location(listed.name)},
                         {"valid", listed.problem.empty()},
                         {"verified", verified}};
  if (!listed.problem.empty()) json["problem"] = listed.problem;
  if (!manifest.saved_at.empty()) {
    json.update({{"run_name", manifest.run_name},
                 {"saved_at", manifest.saved_at},
                 {"epoch", manifest.step.epoch},
                 {"batch", manifest.step.batch},
                 {"samples", manifest.samples},
                 {"world_size", manifest.world_size},
                 {"bytes", manifest.TensorBytesTotal()},
                 {"tensors", manifest.tensors.size()},
                 {"files", manifest.files.size()}});
  }
  return json;
}

void PrintTable(const std::vector<Listed>& all, const ToolContext& context, bool verified) {
  size_t width = 4;
  for (const Listed& listed : all) width = std::max(width, listed.name.size());
  context.out << absl::StrFormat("%-*s  %7s  %9s  %12s  %9s  %7s  %-8s  %s\n", static_cast<int>(width), "NAME", "EPOCH",
                                 "BATCH", "SAMPLES", "SIZE", "TENSORS", "STATE", "AGE");
  for (const Listed& listed : all) {
    const Manifest& m = listed.manifest;
    const char* state = !listed.problem.empty() ? "DAMAGED" : verified ? "valid" : "complete";
    context.out << absl::StrFormat("%-*s  %7d  %9d  %12d  %9s  %7d  %-8s  %s\n", static_cast<int>(width), listed.name,
                                   m.step.epoch, m.step.batch, m.samples, HumanBytes(m.TensorBytesTotal()),
                                   m.tensors.size(), state, Age(m.saved_at, context.now));
    if (!listed.problem.empty()) context.err << listed.name << ": " << listed.problem << "\n";
  }
}

}  // namespace

absl::StatusOr<int> ListTool(const std::vector<std::string>& args, const ToolContext& context) {
  bool as_json = false, verify = false;
  const std::vector<Option> options = {Switch("json", "one JSON array", IntoBool(&as_json)),
                                       Switch("verify", "read everything and check every checksum", IntoBool(&verify))};
  ASSIGN_OR_RETURN(const std::vector<std::string> paths, ParseToolArguments(options, args, 1));
  ASSIGN_OR_RETURN(const CheckpointPlace place, FindCheckpointFolder(paths[0], context));
  ASSIGN_OR_RETURN(const std::vector<CheckpointName> names, CommittedCheckpoints(*place.store));
  std::vector<Listed> all;
  for (const CheckpointName& name : names)
    all.push_back(verify ? Verify(*place.store, name.ToString()) : Look(*place.store, name.ToString()));
  if (as_json) {
    nlohmann::json array = nlohmann::json::array();
    for (const Listed& listed : all) array.push_back(AsJson(*place.store, listed, verify));
    context.out << array.dump(2, ' ', /*ensure_ascii=*/true, nlohmann::json::error_handler_t::replace) << "\n";
  } else if (all.empty()) {
    context.out << "no checkpoints in " << place.store->Location("") << "\n";
  } else {
    PrintTable(all, context, verify);
  }
  const bool damaged = std::any_of(all.begin(), all.end(), [](const Listed& l) { return !l.problem.empty(); });
  return damaged ? kToolDamaged : kToolDone;
}

}  // namespace composer
