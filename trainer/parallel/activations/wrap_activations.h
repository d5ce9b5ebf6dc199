// WrapActivations makes blocks of a model save memory for their activations, according to ActivationOptions.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "trainer/options/activation_options.h"

namespace composer {

// Wraps the chosen blocks, nested ones included. Must be called before FSDP wraps them, so that FSDP lies outside and
// has gathered a block's parameters when the block runs again in backward. Returns what was done, as a line for the
// log; "" when nothing was requested. Returns kInvalidArgument if there is nothing to choose from.
absl::StatusOr<std::string> WrapActivations(torch::nn::Module& model, const ActivationOptions& options,
                                            at::Device device);

}  // namespace composer
