// Metrics by name.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "config/config_map.h"
#include "job/plugin/plugin_registry.h"

namespace composer {

// The built-in ones, which have Composer's (torchmetrics') class names.
std::vector<std::string> MetricReaderNames();

// config.<key>: a map by name, {MulticlassAccuracy: , MaskedAccuracy: {ignore_index: 0}}. Nothing when the key is not given.
std::optional<std::vector<MetricFactory>> ReadMetrics(ConfigMap config, absl::string_view key,
                                                      const PluginTables& plugins);

}  // namespace composer
