// Algorithms by name.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "config/config_map.h"
#include "job/plugin/plugin_registry.h"

namespace composer {

// Returns the names of the built-in algorithms.
std::vector<std::string> AlgorithmNames();

// Reads root.algorithms: a map by name, in the order written. `document` is what root reads; the algorithms keep what
// it says of them as their origin. With composer_compat they are as Composer's (algorithms/composer_quirks.h). Errors
// go to the reader.
std::vector<AlgorithmFactory> ReadAlgorithms(ConfigMap root, const ConfigNode& document, const PluginTables& plugins,
                                             bool composer_compat);

// Returns the plugins' layer policies. One for an algorithm that nobody has is an error of root.plugins.
std::vector<LayerPolicy> ReadLayerPolicies(ConfigMap root, const PluginTables& plugins);

// Makes an algorithm that a checkpoint requires, with composer_compat as Composer's. Returns kInvalidArgument for an
// unknown key or bad arguments.
absl::StatusOr<std::unique_ptr<Algorithm>> MakeAlgorithm(const AlgorithmOrigin& origin, const PluginTables& plugins,
                                                         bool composer_compat);

}  // namespace composer
