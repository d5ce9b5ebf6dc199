// SPDX-License-Identifier: Apache-2.0
#include "trainer/parallel/shard_units.h"

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace composer {
namespace {

// Modules come in depth first, so what lies in a block follows it.
std::vector<ShardUnit> RootAndBlocks(torch::nn::Module& model, int64_t min_num_params) {
  std::vector<ShardUnit> units(1);
  for (const auto& item : model.named_modules("", /*include_self=*/false)) {
    const bool inside = units.size() > 1 && absl::StartsWith(item.key(), absl::StrCat(units.back().name, "."));
    auto* block = dynamic_cast<Block*>(item.value().get());
    if (block == nullptr || inside) continue;
    int64_t numel = 0;
    for (const at::Tensor& param : block->parameters()) numel += param.numel();
    if (numel > 0 && numel >= min_num_params) units.push_back({item.key(), block, {}});
  }
  return units;
}

}  // namespace

std::vector<ShardUnit> FindShardUnits(torch::nn::Module& model, int64_t min_num_params) {
  std::vector<ShardUnit> units = RootAndBlocks(model, min_num_params);
  absl::flat_hash_map<const void*, size_t> unit_of;
  for (size_t u = 1; u < units.size(); ++u) {
    for (const at::Tensor& param : units[u].block->parameters()) {
      const auto [it, added] = unit_of.emplace(param.unsafeGetTensorImpl(), u);
      if (!added && it->second != u) it->second = 0;
    }
  }
  for (const auto& item : model.named_parameters()) {  // a name outside of the block
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
