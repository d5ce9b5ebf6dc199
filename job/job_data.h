// Datasets by name.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "config/config_map.h"
#include "job/plugin/plugin_registry.h"

namespace composer {

// Returns the names of the built-in datasets.
std::vector<std::string> DatasetNames();

// Reads the keys of the dataset that `name` chooses. Errors go to the reader; after one, the factory, which reads the
// data, must not be called.
DatasetFactory ReadDataset(ConfigMap config, const PluginTables& plugins);

}  // namespace composer
