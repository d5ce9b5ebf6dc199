// SPDX-License-Identifier: Apache-2.0
#include "trainer/parallel/activations/wrap_activations.h"

#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "trainer/parallel/activations/activation_checkpoint.h"
#include "trainer/parallel/activations/activation_offload.h"
#include "trainer/parallel/activations/saved_tensors.h"

namespace composer {

absl::StatusOr<std::string> WrapActivations(torch::nn::Module& model, const ActivationOptions& options,
                                            at::Device device) {
  if (!options.checkpoint.any() && !options.cpu_offload) return std::string();
  InstallSavedTensorHooks();
  const std::vector<Block*> blocks = BlocksOf(model);
  if (blocks.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        options.checkpoint.any() ? "activation_checkpointing" : "activation_cpu_offload", ": model ", model.name(),
        " names no blocks: its repeated parts must derive from composer::Block (trainer/core/block.h)"));
  }
  std::vector<std::string> types;
  for (const Block* block : blocks) types.push_back(BlockType(*block));
  const auto chosen = ChooseBlocks(options.checkpoint, types);
  if (!chosen.ok())
    return absl::InvalidArgumentError(absl::StrCat("activation_checkpointing: ", chosen.status().message()));
  const auto checkpoint = std::make_shared<ActivationCheckpoint>();
  for (const size_t i : *chosen) blocks[i]->Wrap(checkpoint);
  std::string done = absl::StrCat("activation checkpointing: ", chosen->size(), " of ", blocks.size(), " blocks");
  if (!options.cpu_offload) return done;
  if (device.is_cpu())
    return absl::StrCat(done, "; activation_cpu_offload does nothing: on a CPU activations are in the host's memory");
  for (Block* block : blocks) block->Wrap(std::make_shared<ActivationOffload>(*block));
  return absl::StrCat(done, "; activations of ", blocks.size(), " blocks wait in the host's memory");
}

}  // namespace composer
