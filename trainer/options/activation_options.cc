// SPDX-License-Identifier: Apache-2.0
#include "trainer/options/activation_options.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

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

}  // namespace composer
