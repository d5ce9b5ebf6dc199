// The keys ddp_sync_strategy and ddp_config of a job: how gradients of a model that is replicated on every rank are
// summed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "config/config_map.h"
#include "trainer/options/activation_options.h"
#include "trainer/options/ddp_options.h"
#include "trainer/options/fsdp_options.h"

namespace composer {

// With `fsdp`, a reduce_dtype of bfloat16 with NO_SHARD becomes gradient_compression bf16.
DdpOptions ReadDdp(ConfigMap& root, const std::optional<FsdpOptions>& fsdp);

// Reads activation_checkpointing, activation_checkpointing_reentrant and activation_cpu_offload from the map that
// ReadParallelism reads; they need no sharding.
ActivationOptions ReadActivations(ConfigMap& root);

}  // namespace composer
