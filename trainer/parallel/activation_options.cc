// SPDX-License-Identifier: Apache-2.0
#include "trainer/parallel/activation_options.h"

#include <algorithm>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "trainer/parallel/activation_checkpoint.h"
#include "trainer/parallel/activation_offload.h"
#include "trainer/parallel/saved_tensors.h"

namespace composer {

absl::StatusOr<std::vector<size_t>> ChooseBlocks(const BlockChoice& choice, absl::Span<const std::string> types) {
  for (const std::string& wanted : choice.types) {
    if (std::find(types.begin(), types.end(), wanted) != types.end()) continue;
    std::vector<std::string> known(types.begin(), types.end());
    std::sort(known.begin(), known.end());
    known.erase(std::unique(known.begin(), known.end()), known.end());
    return absl::InvalidArgumentError(
        absl::StrCat("the model has no block of type ", wanted, "; it has ", absl::StrJoin(known, ", ")));
  }
  std::vector<size_t> chosen;
  for (size_t i = 0; i < types.size(); ++i) {
    const bool by_type = std::find(choice.types.begin(), choice.types.end(), types[i]) != choice.types.end();
    const bool by_place = choice.every > 0 && i % static_cast<size_t>(choice.every) == 0;
    if (by_type || by_place) chosen.push_back(i);
  }
  return chosen;
}

std::vector<Block*> BlocksOf(torch::nn::Module& model) {
  std::vector<Block*> blocks;
  for (const std::shared_ptr<torch::nn::Module>& module : model.modules(/*include_self=*/false)) {
    if (auto* block = dynamic_cast<Block*>(module.get())) blocks.push_back(block);
  }
  return blocks;
}

std::string BlockType(const Block& block) {
  const std::string name = block.name();
  const size_t colons = name.rfind("::");
  return colons == std::string::npos ? name : name.substr(colons + 2);
}

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
