// Loads plugins (plugin.h) into this process: compares the file's note first, then calls dlopen, then the entry point.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "job/plugin/plugin.h"

namespace composer {

// Returns what the plugin was built with, read from the file; nothing of it runs. kInvalidArgument: not a plugin for
// this machine; otherwise ReadFile's errors.
absl::StatusOr<PluginInfo> ReadPluginInfo(const std::string& path);

// Returns OK when objects built this way work in this process; else kInvalidArgument naming what differs, theirs and
// ours.
absl::Status CheckPluginInfo(const PluginInfo& info);

// Checks, loads and registers a plugin, which stays loaded as long as the process. kInvalidArgument, with the file and
// the reason: as above; a library that cannot be loaded (a missing symbol is named, demangled); no entry point; a
// registration that throws or is refused (plugin_registry.h).
absl::Status LoadPlugin(const std::string& path, PluginRegistry& registry);

}  // namespace composer
