// Schedulers by name: Composer's, and torch's with `_lr` at the end.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "config/config_map.h"
#include "trainer/optim/scheduler.h"

namespace composer {

using SchedulerFactory = std::function<std::unique_ptr<Scheduler>()>;

// root.schedulers: one map or a list of them, {name: cosine_annealing_with_warmup, t_warmup: 50ba, …}; their factors
// multiply. root.step_schedulers_every_batch: when they step; not given: as in Composer every batch, but every epoch
// when one of them is torch's. Errors go to the reader.
std::vector<SchedulerFactory> ReadSchedulers(ConfigMap root);

}  // namespace composer
