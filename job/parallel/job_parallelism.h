// Reads a job's parallelism: `parallelism_config: {fsdp: {…}, tp: {…}}`, or the older `fsdp_config: {…}`.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "config/config_map.h"
#include "trainer/core/state.h"
#include "trainer/options/fsdp_options.h"
#include "trainer/options/layer_plan.h"

namespace composer {

// Returns nullopt when neither is given. `precision` is the run's, which mixed_precision DEFAULT and PURE follow.
// Errors go to the reader.
std::optional<FsdpOptions> ReadParallelism(ConfigMap& root, Precision precision);

// Reads `parallelism_config: {tp: {tensor_parallel_degree: …}}`; returns 1 when it is not given.
int ReadTensorParallelDegree(ConfigMap& root);

// Reads `parallelism_config: {tp: {layer_plan: {…}}}`: styles by types or patterns of names, in the order written.
LayerPlan ReadLayerPlan(ConfigMap& root);

}  // namespace composer
