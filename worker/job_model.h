// Models by name.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "config/config_map.h"
#include "worker/plugin_registry.h"

namespace composer {

// The built-in ones.
std::vector<std::string> ModelNames();

// Reads the keys of the model that `name` chooses. Errors go to the reader; the factory must not be called after one. It throws c10::ValueError or StatusError.
ModelFactory ReadModel(ConfigMap config, const PluginTables& plugins);

}  // namespace composer
