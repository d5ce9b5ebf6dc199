// The table of models for pictures by name. job_model.cc puts it with the others.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "config/config_map.h"
#include "job/plugin/plugin_registry.h"

namespace composer {

// Reads a model's keys; errors go to the reader.
struct ModelRow {
  const char* name;
  ModelFactory (*read)(ConfigMap config);
};

std::vector<ModelRow> VisionModelRows();

}  // namespace composer
