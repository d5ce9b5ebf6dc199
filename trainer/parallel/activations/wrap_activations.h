// Makes blocks of a model save memory for their activations, as ActivationOptions say.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "trainer/options/activation_options.h"

namespace composer {

// Wraps the blocks; before FSDP wraps them, so that FSDP lies outside: in backward it has gathered a block's parameters when
// the block runs again. Returns what was done, as a line for the log; "" when nothing was asked for. A block's blocks are
// wrapped, too, when they are chosen. kInvalidArgument: nothing to choose from.
absl::StatusOr<std::string> WrapActivations(torch::nn::Module& model, const ActivationOptions& options,
                                            at::Device device);

}  // namespace composer
