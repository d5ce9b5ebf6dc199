// Models by name: mlp, resnet_small, gpt.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>

#include "config/config_map.h"
#include "trainer/models/model.h"

namespace composer {

using ModelFactory = std::function<std::shared_ptr<Model>()>;

// Reads the keys of the model that `name` chooses. Errors go to the reader; the factory must not be called after one. It throws c10::ValueError.
ModelFactory ReadModel(ConfigMap config);

}  // namespace composer
