// Loads plugins (plugin.h) into this process: the file's note is compared first, then dlopen, then the entry point.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "job/plugin/plugin.h"

namespace composer {

// What the plugin was built with, read from the file; nothing of it runs. kInvalidArgument: not a plugin of this machine; else ReadFile's errors.
absl::StatusOr<PluginInfo> ReadPluginInfo(const std::string& path);

// OK when objects built so work in this process; else kInvalidArgument naming what differs, theirs and ours.
absl::Status CheckPluginInfo(const PluginInfo& info);

// Checks, loads and registers. It stays loaded as long as the process. kInvalidArgument, with the file and the reason: as above; a library that cannot be
// loaded (a missing symbol is named, demangled); no entry point; a registration that throws or is refused (plugin_registry.h).
absl::Status LoadPlugin(const std::string& path, PluginRegistry& registry);

}  // namespace composer
