// KeepInFp32 makes layers of a model compute in float32 where the rest of a step computes in 16 bits.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "absl/status/status.h"
#include "trainer/layers/layer_selector.h"

namespace composer {

// While autocast is on, each chosen layer, and what is in it, runs without it: a 16-bit input becomes float32, and the
// output has the input's type again. Parameters are float32 anyway, unless they
// are sharded: see FsdpOptions::keep_fp32. Must come before other wrappers of the layers, so that what they repeat is
// the same. Returns kInvalidArgument naming the text that chooses nothing or the layer that cannot be wrapped
// (core/block.h).
absl::Status KeepInFp32(torch::nn::Module& model, const LayerChoice& layers);

}  // namespace composer
