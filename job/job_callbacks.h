// Callbacks by name.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "config/config_map.h"
#include "job/job_place.h"
#include "job/plugin/plugin_registry.h"
#include "trainer/core/callback.h"

namespace composer {

using CallbackFactory = std::function<std::unique_ptr<Callback>(const JobPlace& place, const JobFacts& facts)>;

// Reads root.callbacks: {speed_monitor: {window_size: 50}, lr_monitor: , …}, or a list of such maps. Errors go to the
// reader.
std::vector<CallbackFactory> ReadCallbacks(ConfigMap root, const PluginTables& plugins);
// Returns the names of the built-in callbacks.
std::vector<std::string> CallbackNames();

// For callbacks.fail_at with `when: save`, returns the part of a checkpoint file's path whose writing is to kill this
// process; nullopt: none.
using FatalWrite = std::function<std::optional<std::string>(const JobPlace&)>;
FatalWrite ReadFatalWrite(ConfigMap root);

}  // namespace composer
