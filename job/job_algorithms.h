// Algorithms by name.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "config/config_map.h"
#include "job/plugin/plugin_registry.h"

namespace composer {

// The built-in ones.
std::vector<std::string> AlgorithmNames();

// root.algorithms: a map by name, in the order of writing. Errors go to the reader.
std::vector<AlgorithmFactory> ReadAlgorithms(ConfigMap root, const PluginTables& plugins);

}  // namespace composer
