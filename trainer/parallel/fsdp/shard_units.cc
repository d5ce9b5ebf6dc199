// SPDX-License-Identifier: Apache-2.0
#include "trainer/parallel/fsdp/shard_units.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "trainer/options/activation_options.h"

namespace composer {
namespace {

bool IsChosen(const Block& block, const FsdpOptions& options) {
  int64_t numel = 0;
  for (const at::Tensor& param : block.parameters()) numel += param.numel();
  if (numel == 0) return false;
  if (block.fsdp_wrap()) return *block.fsdp_wrap();
  const std::vector<std::string>& types = options.wrap_types;
  const bool by_type = types.empty() || std::find(types.begin(), types.end(), BlockType(block)) != types.end();
  return options.auto_wrap && by_type && numel >= options.min_num_params;
}

void CheckTypes(torch::nn::Module& model, const FsdpOptions& options) {
  if (options.wrap_types.empty()) return;
  std::vector<std::string> types;
  for (const Block* block : BlocksOf(model)) types.push_back(BlockType(*block));
  TORCH_CHECK_VALUE(!types.empty(), "fsdp auto_wrap: the model names no blocks (trainer/core/block.h)");
  const absl::Status status = ChooseBlocks({.types = options.wrap_types}, types).status();
  TORCH_CHECK_VALUE(status.ok(), "fsdp auto_wrap: ", std::string(status.message()));
}

// Modules come depth first, so what lies in a block follows it.
std::vector<ShardUnit> RootAndBlocks(torch::nn::Module& model, const FsdpOptions& options) {
  CheckTypes(model, options);
  std::vector<ShardUnit> units(1);
  for (const auto& item : model.named_modules("", /*include_self=*/false)) {
    const bool inside = units.size() > 1 && absl::StartsWith(item.key(), absl::StrCat(units.back().name, "."));
    auto* block = dynamic_cast<Block*>(item.value().get());
    if (block == nullptr) continue;
    TORCH_CHECK_VALUE(!inside || !block->fsdp_wrap().value_or(false), "fsdp: block ", item.key(),
                      " is marked as a unit of its own, but lies in block ", units.back().name,
                      ", which is one: a unit's parameters are gathered together; mark the outer one "
                      "SetFsdpWrap(false), or not the inner");
    if (!inside && IsChosen(*block, options)) units.push_back({item.key(), block, {}});
  }
  return units;
}

}  // namespace

std::vector<ShardUnit> FindShardUnits(torch::nn::Module& model, const FsdpOptions& options) {
  std::vector<ShardUnit> units = RootAndBlocks(model, options);
  absl::flat_hash_map<const void*, size_t> unit_of;
  for (size_t u = 1; u < units.size(); ++u) {
    for (const at::Tensor& param : units[u].block->parameters()) {
      const auto [it, added] = unit_of.emplace(param.unsafeGetTensorImpl(), u);
      if (!added && it->second != u) it->second = 0;
    }
  }
  for (const auto& item : model.named_parameters()) {  // finds names outside of the block
    const auto it = unit_of.find(item.value().unsafeGetTensorImpl());
    if (it != unit_of.end() && it->second > 0 &&
        !absl::StartsWith(item.key(), absl::StrCat(units[it->second].name, ".")))
      it->second = 0;
  }
  absl::flat_hash_set<const void*> seen;
  for (const auto& item : model.named_parameters()) {
    const at::Tensor& param = item.value();
    if (!seen.insert(param.unsafeGetTensorImpl()).second) continue;
    TORCH_CHECK_VALUE(param.is_floating_point(), "fsdp: parameter ", item.key(), " is ", param.scalar_type(),
                      ", only floating point can be sharded");
    const auto it = unit_of.find(param.unsafeGetTensorImpl());
    units[it == unit_of.end() ? 0 : it->second].params.emplace_back(item.key(), param);
  }
  return units;
}

}  // namespace composer
