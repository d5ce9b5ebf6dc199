// LoRA's adapters as huggingface/peft keeps them: a folder with adapter_config.json and adapter_model.safetensors, in
// which a tensor's name is the model's behind `base_model.model.`.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/status/status.h"
#include "trainer/algorithms/surgery/lora.h"

namespace composer {

// Returns the text of adapter_config.json for these layers.
std::string LoraConfigJson(const LoraOptions& options, const NamedModules& targets, const NamedModules& whole,
                           bool transposed);

// Gives the trainable parameters the adapter's values, which each rank reads whole. kInvalidArgument names what is
// missing, unexpected or of another shape; kNotFound, kDataLoss: the file cannot be read.
absl::Status TakeLoraAdapter(const std::string& folder, Model& model);

}  // namespace composer
