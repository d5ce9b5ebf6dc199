// The `plugins` of a job: which files they are, one hash over them that all nodes of a run must agree on, and the keys
// that they add to a job's file. Nothing is loaded here.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "config/config_map.h"
#include "config/plugin_note.h"
#include "config/schema.h"

namespace composer {

inline constexpr int64_t kMaxPluginBytes = int64_t{1} << 30;

// Reads root.plugins: [./libmine.so, /opt/libtheirs.so], or a single one. A relative path starts at the YAML file's
// folder.
// Returns absolute paths of existing files, in the order written; a missing file, a folder or a duplicate file goes to
// the reader as an error.
std::vector<std::string> ReadPluginFiles(ConfigMap& root, const std::string& yaml_path);

struct PluginFacts {
  // 16 hex digits over the files' contents, in their order; "" for no files. Paths do not count: they may differ
  // between nodes.
  std::string hash;
  // The built-in table of keys and those that the plugins bring.
  Schema schema;
  // Some plugin brings no table: names that the schema lacks may belong to it.
  bool open_names = false;
};
// Returns ReadFile's errors, and kInvalidArgument for a table that cannot be read.
absl::StatusOr<PluginFacts> ReadPluginFacts(const std::vector<std::string>& paths);

}  // namespace composer
