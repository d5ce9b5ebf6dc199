// SPDX-License-Identifier: Apache-2.0
#include "trainer/parallel/fsdp/shard_units.h"

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "trainer/core/block.h"

namespace composer {
namespace {

using ChosenModules = absl::flat_hash_set<const torch::nn::Module*>;

// Returns what the options name, which is nothing when all blocks are meant.
ChosenModules Named(const torch::nn::Module& model, const FsdpOptions& options) {
  ChosenModules named;
  if (options.wrap.empty()) return named;
  const absl::StatusOr<NamedModules> chosen = ChooseLayers(model, options.wrap);
  TORCH_CHECK_VALUE(chosen.ok(), "fsdp auto_wrap: ", std::string(chosen.status().message()));
  for (const auto& [name, module] : *chosen) {
    const std::string why_not = WhyNotWrapped(*module);
    TORCH_CHECK_VALUE(why_not.empty(), "fsdp auto_wrap: layer ", name, " (", module->name(),
                      ") cannot be a unit: ", why_not);
    named.insert(module.get());
  }
  return named;
}

bool IsUnit(const torch::nn::Module& module, const Block* block, const ChosenModules& named,
            const FsdpOptions& options) {
  const bool by_name = options.wrap.empty() ? block != nullptr : named.contains(&module);
  if (!by_name && block == nullptr) return false;
  int64_t numel = 0;
  for (const at::Tensor& param : module.parameters()) numel += param.numel();
  if (numel == 0) return false;
  if (block != nullptr && block->fsdp_wrap()) return *block->fsdp_wrap();
  return options.auto_wrap && by_name && numel >= options.min_num_params;
}

// Modules come depth first, so what lies in a unit follows it.
std::vector<ShardUnit> RootAndBlocks(torch::nn::Module& model, const FsdpOptions& options) {
  const ChosenModules named = Named(model, options);
  std::vector<ShardUnit> units(1);
  for (const auto& item : model.named_modules("", /*include_self=*/false)) {
    const bool inside = units.size() > 1 && absl::StartsWith(item.key(), absl::StrCat(units.back().name, "."));
    const auto* block = dynamic_cast<const Block*>(item.value().get());
    TORCH_CHECK_VALUE(!inside || block == nullptr || !block->fsdp_wrap().value_or(false), "fsdp: block ", item.key(),
                      " is marked as a unit of its own, but lies in block ", units.back().name,
                      ", which is one: a unit's parameters are gathered together; mark the outer one "
                      "SetFsdpWrap(false), or not the inner");
    if (!inside && IsUnit(*item.value(), block, named, options)) units.push_back({item.key(), item.value(), {}});
  }
  return units;
}

}  // namespace

std::vector<ShardUnit> FindShardUnits(torch::nn::Module& model, const FsdpOptions& options) {
  std::vector<ShardUnit> units = RootAndBlocks(model, options);
  absl::flat_hash_map<const void*, size_t> unit_of;
  for (size_t u = 1; u < units.size(); ++u) {
    for (const at::Tensor& param : units[u].module->parameters()) {
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
