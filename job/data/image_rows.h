// Tables of image sources and image transforms by name. job_data.cc and job_transforms.cc put them with the others.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "config/config_map.h"
#include "job/plugin/plugin_registry.h"

namespace composer {

// Each reads its keys; errors go to the reader.
struct SourceRow {
  const char* name;
  SourceFactory (*read)(ConfigMap config);
};
struct TransformRow {
  const char* name;
  TransformFactory (*read)(ConfigMap config);
};

std::vector<SourceRow> ImageSourceRows();
std::vector<TransformRow> ImageTransformRows();

}  // namespace composer
