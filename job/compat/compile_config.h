// Composer's `compile_config`, the arguments of torch.compile. There is no compiler of graphs here, so the map is read
// and checked, and the run says what takes its place; docs/compile.md goes through it key by key.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "config/config_map.h"
#include "config/node.h"

namespace composer {

void ReadCompileConfig(ConfigMap& root);

// Returns what a run with this configuration says at its start; "" without a `compile_config`, or when it is disabled.
std::string WhatReplacesCompile(const ConfigNode& effective);

}  // namespace composer
