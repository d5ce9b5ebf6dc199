// Metrics by name.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "config/config_map.h"
#include "job/plugin/plugin_registry.h"

namespace composer {

// Returns the names of the built-in metrics, which are Composer's (torchmetrics') class names.
std::vector<std::string> MetricReaderNames();

// Reads config.<key>, a map by name: {MulticlassAccuracy: , MaskedAccuracy: {ignore_index: 0}}. Returns nullopt when
// the key is not given.
std::optional<std::vector<MetricFactory>> ReadMetrics(ConfigMap config, absl::string_view key,
                                                      const PluginTables& plugins);

}  // namespace composer
