// Schedulers by name: Composer's, and torch's with an `_lr` suffix.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "config/config_map.h"
#include "job/plugin/plugin_registry.h"

namespace composer {

// Reads root.schedulers: one map or a list of them, {name: cosine_annealing_with_warmup, t_warmup: 50ba, …}; their
// factors multiply. Reads root.step_schedulers_every_batch: when they step. If not given, that is every batch, as in
// Composer, but every epoch when one of them is torch's. Errors go to the reader.
std::vector<SchedulerFactory> ReadSchedulers(ConfigMap root, const PluginTables& plugins, bool composer_compat);
// Returns the names of the built-in schedulers.
std::vector<std::string> SchedulerNames();

}  // namespace composer
