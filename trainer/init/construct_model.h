// Makes a run's model, without memory for its parameters where that can be done.
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
  std::string whole_because;           // then: what its constructor does that cannot be deferred; one line
};

// Calls `make`, which must give a new model each time: again, with torch's generator seeded, when what it did cannot be
// deferred. Throws what `make` then throws.
ConstructedModel ConstructModel(const std::function<std::shared_ptr<Model>()>& make, uint64_t seed);

// Puts the model on the device. Values of its buffers, and unless it is going to be sharded (parallel/fsdp.h makes them, piece
// by piece) of its parameters, are made.
void GiveValues(const ConstructedModel& made, at::Device device, bool sharded);

}  // namespace composer
