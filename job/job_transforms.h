// Transforms and collators by name: `transforms: [{tokenize: {}}, …]`, `collate: {name: pad}`.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "config/config_map.h"
#include "job/plugin/plugin_registry.h"

namespace composer {

// Reads config.transforms, in the order written.
std::vector<TransformFactory> ReadTransforms(ConfigMap config, const PluginTables& plugins);

// Reads config.collate. Empty if it is not given.
CollatorFactory ReadCollator(ConfigMap config, const PluginTables& plugins);

}  // namespace composer
