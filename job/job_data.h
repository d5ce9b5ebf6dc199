// Datasets by name.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "config/config_map.h"
#include "job/plugin/plugin_registry.h"

namespace composer {

// The built-in ones.
std::vector<std::string> DatasetNames();

// Reads the keys of the dataset that `name` chooses. Errors go to the reader; the factory, which reads the data, must not be called after one.
DatasetFactory ReadDataset(ConfigMap config, const PluginTables& plugins);

}  // namespace composer
