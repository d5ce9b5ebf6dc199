// Converts a part of a resolved configuration to other forms.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "config/node.h"
#include "trainer/core/logger.h"

namespace composer {

// Returns JSON: numbers and booleans where the YAML has them, otherwise strings, also for values from the environment.
// Returns null for a null pointer.
std::string ConfigJson(const ConfigNode* node);

// Returns one pair per value: ("optimizers/lr", "0.001"), ("callbacks/0", "lr_monitor"). Names are as Composer flattens
// nested hyperparameters. Values of keys that look like secrets (key, token, secret, password) are "***"; values from
// the environment appear as they were written.
// Source: mosaicml composer/utils/auto_log_hparams.py, convert_nested_dict_to_flat_dict().
Hyperparameters FlatConfig(const ConfigNode& node);

}  // namespace composer
