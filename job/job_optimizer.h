// Optimizers by name.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "config/config_map.h"
#include "job/plugin/plugin_registry.h"

namespace composer {

// root.optimizers: {name: adamw, lr, weight_decay, …}; keys and defaults are Composer's or torch's. Without it: as
// Composer, decoupled_sgdw with lr 0.1. Errors go to the reader. The factory throws StatusError, for a parameter rule
// that matches nothing, say.
OptimizerFactory ReadOptimizer(ConfigMap root, const PluginTables& plugins);
// The built-in ones.
std::vector<std::string> OptimizerNames();

}  // namespace composer
