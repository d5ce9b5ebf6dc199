// ddp_sync_strategy and ddp_config of a job: how gradients of a model that every rank holds whole are summed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "config/config_map.h"
#include "trainer/parallel/activation_options.h"
#include "trainer/parallel/ddp_options.h"

namespace composer {

DdpOptions ReadDdp(ConfigMap root);

// activation_checkpointing, activation_checkpointing_reentrant and activation_cpu_offload of fsdp_config; they need no
// sharding.
ActivationOptions ReadActivations(ConfigMap& config);

}  // namespace composer
