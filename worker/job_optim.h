// Optimizers and schedulers by name.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "config/config_map.h"
#include "worker/plugin_registry.h"

namespace composer {

// The built-in ones.
std::vector<std::string> OptimizerNames();

// root.optimizers: {name: decoupled_adamw | decoupled_sgdw, lr, weight_decay, …}; default as Composer: decoupled_sgdw with lr 0.1.
// Errors go to the reader. The factory throws StatusError, for a parameter rule that matches nothing, say.
OptimizerFactory ReadOptimizer(ConfigMap root, const PluginTables& plugins);

// root.schedulers: one map or a list of them, {name: cosine_annealing_with_warmup, t_warmup: 50ba, …}; their factors multiply.
std::vector<SchedulerFactory> ReadSchedulers(ConfigMap root, const PluginTables& plugins);

}  // namespace composer
