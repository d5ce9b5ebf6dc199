// Algorithms by name.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "config/config_map.h"
#include "job/plugin/plugin_registry.h"

namespace composer {

// Returns the names of the built-in algorithms.
std::vector<std::string> AlgorithmNames();

// Reads root.algorithms: a map by name, in the order written. Errors go to the reader.
std::vector<AlgorithmFactory> ReadAlgorithms(ConfigMap root, const PluginTables& plugins);

}  // namespace composer
