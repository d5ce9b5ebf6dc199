// SPDX-License-Identifier: Apache-2.0
#include "config/job_identity.h"

#include <climits>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/file.h"
#include "base/status_macros.h"
#include "base/utf8.h"
#include "config/config_map.h"
#include "config/document.h"

namespace composer {
namespace {

bool IsRunName(absl::string_view name) {
  if (name.empty() || name.size() > 200 || name == "." || name == "..") return false;
  if (FirstBadUtf8(name) != absl::string_view::npos) return false;
  for (char c : name) {
    if (c == '/' || absl::ascii_iscntrl(static_cast<unsigned char>(c))) return false;
  }
  return true;
}

std::string DefaultRunName(const std::string& yaml_path, const Environment& env) {
  for (const char* variable : {"COMPOSER_RUN_NAME", "RUN_NAME"}) {
    const std::string name = env.GetOr(variable, "");
    if (!name.empty()) return name;
  }
  return Stem(yaml_path);
}

constexpr size_t kMaxDataPaths = 64;

void CollectPaths(const ConfigNode& node, const std::string& at,
                  std::vector<std::pair<std::string, std::string>>& out) {
  for (size_t i = 0; i < node.children.size(); ++i) {
    const ConfigNode& child = node.children[i];
    const std::string name = absl::StrCat(at, ".", child.key.empty() ? absl::StrCat(i) : child.key);
    if (child.is_scalar() && (child.key == "path" || node.key == "paths") && out.size() < kMaxDataPaths) {
      out.emplace_back(name, child.scalar);
    }
    CollectPaths(child, name, out);
  }
}

void ReadStartupLimits(ConfigMap map, StartupLimits& limits) {
  for (const std::string& phase : map.Keys()) {
    const absl::Status status = SetStartupLimit(phase, map.Double(phase, 0), limits);
    if (!status.ok()) map.Reject(phase, status.message());
  }
}

}  // namespace

absl::StatusOr<JobIdentity> ReadJobIdentity(const std::string& yaml_path, const std::vector<std::string>& overrides,
                                            const Environment& env) {
  ASSIGN_OR_RETURN(ConfigNode document, LoadConfig({yaml_path}, overrides, env));
  ConfigReader reader(document);
  ConfigMap root = reader.root();
  JobIdentity job;
  job.run_name = root.String("run_name", DefaultRunName(yaml_path, env));
  if (!IsRunName(job.run_name)) {
    root.Reject("run_name",
                absl::StrCat("`", absl::CHexEscape(job.run_name),
                             "` cannot name a run: 1 to 200 bytes of UTF-8 without `/` or control characters"));
  }
  job.run_folder = root.String("run_folder", "runs/{run_name}");
  if (job.run_folder.empty()) root.Reject("run_folder", "must not be empty");
  job.run_folder = AbsolutePath(absl::StrReplaceAll(job.run_folder, {{"{run_name}", job.run_name}}));
  job.max_restarts = static_cast<int>(root.Int("max_restarts", 3, {.min = 0, .max = INT_MAX}));
  if (root.Has("startup_limits")) ReadStartupLimits(root.Map("startup_limits"), job.startup_limits);
  if (root.Has("nproc")) job.nproc = static_cast<int>(root.Int("nproc", 1, {.min = 1, .max = 4096}));
  job.resume_changes = root.StringList("resume_changes", {});
  job.peer_memory = root.Has("save_memory_interval");
  job.config_hash = ConfigHash(document);
  for (const char* key : {"train_dataloader", "eval_dataloader"}) {
    if (const ConfigNode* node = document.Find(key)) CollectPaths(*node, key, job.data_paths);
  }
  const std::vector<std::string> plugins = ReadPluginFiles(root, yaml_path);
  RETURN_IF_ERROR(reader.status());
  ASSIGN_OR_RETURN(job.plugins, ReadPluginFacts(plugins));
  job.document = std::move(document);
  return job;
}

}  // namespace composer
