// SPDX-License-Identifier: Apache-2.0
#include "config/config_changes.h"

#include <algorithm>
#include <cstdlib>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "config/effective_config.h"

namespace composer {
namespace {

constexpr size_t kMostDescribed = 8;
constexpr size_t kLongestValue = 60;

// Returns whether `path` is at or below `place`.
bool IsWithin(absl::string_view path, absl::string_view place) {
  return absl::StartsWith(path, place) && (path.size() == place.size() || path[place.size()] == '.');
}

struct ClassRow {
  absl::string_view place;
  ChangeClass kind;
};
// The first row that covers the path counts; a path without a row is notable.
constexpr ClassRow kClasses[] = {
    // These say how samples are fetched, and where they are: another machine has other paths. The number of samples is
    // compared when they are opened.
    {"train_dataloader.num_workers", ChangeClass::kHarmless},
    {"train_dataloader.prefetch_factor", ChangeClass::kHarmless},
    {"train_dataloader.timeout", ChangeClass::kHarmless},
    {"train_dataloader.pin_memory", ChangeClass::kHarmless},
    {"train_dataloader.predownload", ChangeClass::kHarmless},
    {"train_dataloader.cache_limit", ChangeClass::kHarmless},
    {"train_dataloader.range_bytes", ChangeClass::kHarmless},
    {"train_dataloader.download_retry", ChangeClass::kHarmless},
    {"train_dataloader.download_timeout", ChangeClass::kHarmless},
    {"train_dataloader.validate_hash", ChangeClass::kHarmless},
    {"train_dataloader.local", ChangeClass::kNotable},
    {"train_dataloader.remote", ChangeClass::kNotable},
    {"train_dataloader.batch_size", ChangeClass::kNotable},  // the trainer checks it together with the number of ranks
    {"train_dataloader.path", ChangeClass::kNotable},
    {"train_dataloader.paths", ChangeClass::kNotable},
    {"train_dataloader", ChangeClass::kMeaningless},
    {"model", ChangeClass::kMeaningless},
    {"seed", ChangeClass::kMeaningless},
    {"optimizers.name", ChangeClass::kMeaningless},
    // These say what is shown of a run, and where it is kept.
    {"run_name", ChangeClass::kHarmless},
    {"run_folder", ChangeClass::kHarmless},
    {"variables", ChangeClass::kHarmless},
    {"max_restarts", ChangeClass::kHarmless},
    {"nproc", ChangeClass::kHarmless},
    {"plugins", ChangeClass::kHarmless},
    {"resume_changes", ChangeClass::kHarmless},
    {"autoresume", ChangeClass::kHarmless},
    {"eval_first", ChangeClass::kHarmless},
    {"load_path", ChangeClass::kHarmless},
    {"save_folder", ChangeClass::kHarmless},
    {"save_filename", ChangeClass::kHarmless},
    {"save_latest_filename", ChangeClass::kHarmless},
    {"save_async", ChangeClass::kHarmless},
    {"save_overlap", ChangeClass::kHarmless},
    {"save_overwrite", ChangeClass::kHarmless},
    {"loggers", ChangeClass::kHarmless},
    {"progress_bar", ChangeClass::kHarmless},
    {"log_to_console", ChangeClass::kHarmless},
    {"console_stream", ChangeClass::kHarmless},
    {"console_log_interval", ChangeClass::kHarmless},
    {"log_traces", ChangeClass::kHarmless},
    {"auto_log_hparams", ChangeClass::kHarmless},
    {"metrics_file", ChangeClass::kHarmless},
    {"profiler", ChangeClass::kHarmless},
    {"dist_timeout", ChangeClass::kHarmless},
    {"collectives", ChangeClass::kHarmless},
    {"debug_collectives", ChangeClass::kHarmless},
    {"compile_config", ChangeClass::kHarmless},
};

std::string Cut(const std::string& value) {
  return value.size() <= kLongestValue ? value : absl::StrCat(value.substr(0, kLongestValue), "...");
}

std::string ValueOf(const std::string& value) { return value.empty() ? "(not given)" : Cut(value); }

void ForgetWritten(ConfigNode& node) {
  node.written.clear();
  for (ConfigNode& child : node.children) ForgetWritten(child);
}

// Lists the leaves below `node` that nobody wrote, as KeptConfig::defaults.
void ListDefaults(const ConfigNode& node, const std::string& path, const std::string& written,
                  std::map<std::string, std::string>& defaults) {
  const bool is_default = node.mark.source == kDefaultSource;
  if (node.children.empty() || (node.is_list() && !node.children[0].is_map())) {
    if (is_default) defaults[path] = written;
    return;
  }
  const std::string& nearest = is_default ? written : path;
  for (size_t i = 0; i < node.children.size(); ++i) {
    const std::string name = node.is_list() ? absl::StrCat(i) : node.children[i].key;
    ListDefaults(node.children[i], path.empty() ? name : absl::StrCat(path, ".", name), nearest, defaults);
  }
}

// Returns whether `before` lacks this setting only because its version did not know the key.
bool IsNewDefault(const KeptConfig& before, const KeptConfig& after, const std::string& path) {
  const auto it = after.defaults.find(path);
  if (it == after.defaults.end() || before.settings.count(path) > 0) return false;
  return std::any_of(before.settings.begin(), before.settings.end(),
                     [&](const auto& setting) { return it->second.empty() || IsWithin(setting.first, it->second); });
}

bool SameHash(const KeptConfig& a, const KeptConfig& b, const std::string& path) {
  const auto first = a.hashes.find(path), second = b.hashes.find(path);
  return first == a.hashes.end() || second == b.hashes.end() || first->second == second->second;
}

// Treats `1e-3` and `0.001` as equal; compares other texts verbatim.
bool SameValue(const std::string& a, const std::string& b) {
  if (a == b) return true;
  char* end_a = nullptr;
  char* end_b = nullptr;
  const double x = std::strtod(a.c_str(), &end_a), y = std::strtod(b.c_str(), &end_b);
  return !a.empty() && !b.empty() && *end_a == '\0' && *end_b == '\0' && x == y;
}

}  // namespace

ChangeClass ClassOfChange(absl::string_view path) {
  for (const ClassRow& row : kClasses) {
    if (IsWithin(path, row.place)) return row.kind;
  }
  return ChangeClass::kNotable;
}

KeptConfig KeepConfig(const ConfigNode& effective,
                      const std::function<std::string(absl::string_view path, absl::string_view value)>& hash) {
  ConfigNode resolved = effective;
  ForgetWritten(resolved);
  const std::vector<Setting> values = ListSettings(resolved), shown = ListSettings(effective);
  KeptConfig kept;
  ListDefaults(effective, "", "", kept.defaults);
  for (size_t i = 0; i < shown.size(); ++i) {
    const std::string& path = shown[i].path;
    const bool secret = IsSecretKey(path.substr(path.rfind('.') + 1));
    const bool hidden = secret || values[i].value != shown[i].value;
    kept.settings[path] = secret && values[i].value == shown[i].value ? "***" : shown[i].value;
    if (hidden) kept.hashes[path] = hash(path, values[i].value);
  }
  return kept;
}

std::vector<ConfigChange> CompareConfigs(const KeptConfig& before, const KeptConfig& after) {
  std::vector<ConfigChange> changes;
  for (const auto& [path, value] : after.settings) {
    if (IsNewDefault(before, after, path)) continue;
    const auto it = before.settings.find(path);
    const std::string was = it == before.settings.end() ? "" : it->second;
    if (!SameValue(was, value)) {
      changes.push_back({path, was, value, ClassOfChange(path)});
    } else if (!SameHash(before, after, path)) {
      changes.push_back({path, value, absl::StrCat(value, " with another value"), ClassOfChange(path)});
    }
  }
  for (const auto& [path, value] : before.settings) {
    if (after.settings.count(path) == 0) changes.push_back({path, value, "", ClassOfChange(path)});
  }
  return changes;
}

bool MayChange(const std::vector<std::string>& resume_changes, absl::string_view path) {
  return std::any_of(resume_changes.begin(), resume_changes.end(),
                     [&](const std::string& permitted) { return permitted == "allow" || IsWithin(path, permitted); });
}

std::string DescribeChanges(const std::vector<ConfigChange>& changes) {
  std::vector<std::string> parts;
  for (size_t i = 0; i < std::min(changes.size(), kMostDescribed); ++i) {
    parts.push_back(absl::StrCat(changes[i].path, " ", ValueOf(changes[i].before), " -> ", ValueOf(changes[i].after)));
  }
  if (changes.size() > kMostDescribed) parts.push_back(absl::StrCat(changes.size() - kMostDescribed, " more"));
  return absl::StrJoin(parts, ", ");
}

}  // namespace composer
