// The `plugins` of a job: which files they are, and one hash over them that all nodes of a run must agree on. Nothing is loaded here.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "config/config_map.h"

namespace composer {

inline constexpr int64_t kMaxPluginBytes = int64_t{1} << 30;

// root.plugins: [./libmine.so, /opt/libtheirs.so], or one of them. A path that is not absolute starts at the YAML file's folder.
// Absolute paths of files that exist, in the order of writing; a missing file, a folder or the same file twice goes to the reader as an error.
std::vector<std::string> ReadPluginFiles(ConfigMap& root, const std::string& yaml_path);

// 16 hex digits over the files' contents, in their order; "" for no files. Their paths do not count: they may differ between nodes.
// Errors as ReadFile's.
absl::StatusOr<std::string> HashPlugins(const std::vector<std::string>& paths);

}  // namespace composer
