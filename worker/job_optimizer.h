// Optimizers by name.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>

#include "config/config_map.h"
#include "trainer/models/model.h"
#include "trainer/optim/optimizer.h"

namespace composer {

using OptimizerFactory = std::function<std::unique_ptr<Optimizer>(Model&)>;

// root.optimizers: {name: adamw, lr, weight_decay, …}; keys and defaults are Composer's or torch's. Without it: as
// Composer, decoupled_sgdw with lr 0.1. Errors go to the reader. The factory throws StatusError, for a parameter rule
// that matches nothing, say.
OptimizerFactory ReadOptimizer(ConfigMap root);

}  // namespace composer
