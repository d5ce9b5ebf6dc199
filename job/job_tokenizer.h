// The run's tokenizer: `tokenizer: {name: bytes|hf, …}`.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "config/config_map.h"
#include "job/plugin/plugin_registry.h"

namespace composer {

// Returns the names of the built-in tokenizers.
std::vector<std::string> TokenizerNames();

// Reads root.tokenizer. Returns an empty function when the key is not given.
TokenizerFactory ReadTokenizer(ConfigMap root, const PluginTables& plugins);

}  // namespace composer
