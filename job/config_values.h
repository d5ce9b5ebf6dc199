// A part of a resolved configuration in other shapes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "config/node.h"
#include "trainer/core/logger.h"

namespace composer {

// JSON: numbers and booleans where the YAML has them, texts elsewhere, also for what is out of the environment. Null for a null pointer.
std::string ConfigJson(const ConfigNode* node);

// One pair for each value: ("optimizers/lr", "0.001"), ("callbacks/0", "lr_monitor"). Names as Composer flattens nested
// hyperparameters. Values of keys that look like secrets (key, token, secret, password) are "***", those out of the environment as they were written.
// Source: mosaicml composer/utils/auto_log_hparams.py, convert_nested_dict_to_flat_dict().
Hyperparameters FlatConfig(const ConfigNode& node);

}  // namespace composer
