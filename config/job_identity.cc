// SPDX-License-Identifier: Apache-2.0
#include "config/job_identity.h"

#include <climits>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/file.h"
#include "base/status_macros.h"
#include "config/config_map.h"
#include "config/document.h"

namespace composer {
namespace {

bool IsRunName(absl::string_view name) {
  if (name.empty() || name.size() > 200 || name == "." || name == "..") return false;
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

}  // namespace

absl::StatusOr<JobIdentity> ReadJobIdentity(const std::string& yaml_path, const std::vector<std::string>& overrides,
                                            const Environment& env) {
  ASSIGN_OR_RETURN(const ConfigNode document, LoadConfig({yaml_path}, overrides, env));
  ConfigReader reader(document);
  ConfigMap root = reader.root();
  JobIdentity job;
  job.run_name = root.String("run_name", DefaultRunName(yaml_path, env));
  if (!IsRunName(job.run_name)) {
    root.Reject("run_name", absl::StrCat("`", job.run_name,
                                         "` cannot name a run: 1 to 200 bytes without `/` or control characters"));
  }
  job.run_folder = root.String("run_folder", "runs/{run_name}");
  job.run_folder = AbsolutePath(absl::StrReplaceAll(job.run_folder, {{"{run_name}", job.run_name}}));
  job.max_restarts = static_cast<int>(root.Int("max_restarts", 3, {.min = 0, .max = INT_MAX}));
  if (root.Has("nproc")) job.nproc = static_cast<int>(root.Int("nproc", 1, {.min = 1, .max = 4096}));
  job.config_hash = ConfigHash(document);
  RETURN_IF_ERROR(reader.status());
  return job;
}

}  // namespace composer
