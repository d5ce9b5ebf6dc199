// Checkpoints of models that LoRA changed (trainer/algorithms/surgery/lora.h): merged by `composer checkpoint export
// --hf`, or the adapter alone, in PEFT's format, by `--adapter`.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "checkpoint/format/manifest.h"
#include "checkpoint/tools/weight_export.h"

namespace composer {

// The name of the algorithm; its state in a checkpoint is the text of PEFT's adapter_config.json.
inline constexpr char kLoraName[] = "LoRA";

struct LoraState {
  std::vector<MergedLayer> layers;
  std::vector<std::string> whole;  // layers that were trained whole
  std::string config_json;         // with the base model's folder, if the checkpoint knows it
};
// nullopt: there is no LoRA. kFailedPrecondition: there was, but the checkpoint holds weights only. kDataLoss: its
// state cannot be read.
absl::StatusOr<std::optional<LoraState>> ReadLoraState(const Manifest& manifest);

// Makes the options those of an adapter: the tensors that were trained, under PEFT's names.
void ExportAdapterOnly(const LoraState& state, ExportOptions& options);

}  // namespace composer
