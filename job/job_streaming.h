// `{name: streaming, …}`: samples in mosaicml-streaming's format, by the names of its StreamingDataset.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "config/config_map.h"
#include "job/plugin/plugin_registry.h"

namespace composer {

SourceFactory ReadStreaming(ConfigMap config);

}  // namespace composer
