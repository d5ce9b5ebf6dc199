// Optimizers by name.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "config/config_map.h"
#include "job/plugin/plugin_registry.h"

namespace composer {

// Reads root.optimizers: {name: adamw, lr, weight_decay, …}; keys and defaults are Composer's or torch's. Without it,
// the default is Composer's: decoupled_sgdw with lr 0.1. Errors go to the reader. The factory throws StatusError, for
// example for a parameter rule that matches nothing.
OptimizerFactory ReadOptimizer(ConfigMap root, const PluginTables& plugins);
// Returns the names of the built-in optimizers.
std::vector<std::string> OptimizerNames();

}  // namespace composer
