// ConstructModel makes a run's model, if possible without memory for its parameters.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "trainer/core/model.h"
#include "trainer/init/deferred_init.h"

namespace composer {

struct ConstructedModel {
  std::shared_ptr<Model> model;
  std::unique_ptr<DeferredInit> init;  // null: the model has its values
  std::string whole_because;           // if init is null: what in its constructor cannot be deferred; one line
};

// Calls `make`, which must return a new model each time. It is called again, with torch's generator seeded, when its
// first call did something that cannot be deferred. Throws what `make` then throws.
ConstructedModel ConstructModel(const std::function<std::shared_ptr<Model>()>& make, uint64_t seed);

// Moves the model to the device. Makes the values of its buffers and, unless it is going to be sharded (parallel/fsdp
// makes them piece by piece then), of its parameters.
void GiveValues(const ConstructedModel& made, at::Device device, bool sharded);

}  // namespace composer
