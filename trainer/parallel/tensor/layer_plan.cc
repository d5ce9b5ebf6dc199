// SPDX-License-Identifier: Apache-2.0
#include "trainer/parallel/tensor/layer_plan.h"

#include <torch/nn/module.h>
#include <torch/types.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "trainer/layers/attention_core.h"
#include "trainer/layers/replace_layers.h"
#include "trainer/parallel/tensor/split_linear.h"

namespace composer {
namespace {

using Module = torch::nn::Module;

// A layer that the plan splits, or that sees a part.
struct PlannedLayer {
  const LayerPlanRow* row;
  std::optional<WholeLinear> linear;  // nullopt: SequenceParallel
};
using PlannedLayers = std::map<std::string, PlannedLayer>;  // by name

std::string Row(const LayerPlanRow& row) {
  return absl::StrCat("tp.layer_plan, `", row.layers, ": ", StyleName(row.style), "`: ");
}

void CheckDivision(const std::string& name, const PlannedLayer& layer, int ranks) {
  if (!layer.linear.has_value()) return;
  const LinearLayer::Division& division = layer.linear->division;
  const bool rowwise = layer.row->style == ParallelStyle::kRowwise;
  const int64_t features = rowwise ? layer.linear->in : layer.linear->out / division.parts;
  TORCH_CHECK_VALUE(features % ranks == 0, Row(*layer.row), "the ", features, rowwise ? " input" : " output",
                    " features of layer ", name, division.parts > 1 ? " (of each of its parts)" : "",
                    " do not split over tensor_parallel_degree ", ranks);
  TORCH_CHECK_VALUE(rowwise || division.units % ranks == 0, Row(*layer.row), "the ", division.units, " heads of layer ",
                    name, " do not split over tensor_parallel_degree ", ranks);
}

PlannedLayer PlanLayer(const LayerPlanRow& row, const std::string& name, const Module& module) {
  if (row.style == ParallelStyle::kSequence) return {&row, std::nullopt};
  const std::optional<WholeLinear> linear = AsWholeLinear(module);
  TORCH_CHECK_VALUE(linear.has_value(), Row(row), "layer ", name, " is a ", module.name(),
                    ", and a plan splits Linear layers only; name others, or leave out what put it there");
  const auto* layer = dynamic_cast<const Layer*>(&module);
  TORCH_CHECK_VALUE(layer != nullptr && layer->is_in_slot(), Row(row), "layer ", name, " (", module.name(),
                    ") cannot be split: its model does not hold it in a Slot (trainer/layers/slot.h)");
  return {&row, linear};
}

PlannedLayers LayersOf(const Module& model, const LayerPlan& plan, int ranks) {
  PlannedLayers layers;
  for (const LayerPlanRow& row : plan) {
    const absl::StatusOr<NamedModules> chosen = ChooseLayers(model, {{row.layers}, nullptr});
    TORCH_CHECK_VALUE(chosen.ok(), "tp.layer_plan: ", std::string(chosen.status().message()));
    for (const auto& [name, module] : *chosen) {
      const auto [place, is_new] = layers.try_emplace(name, PlanLayer(row, name, *module));
      TORCH_CHECK_VALUE(is_new, Row(row), "layer ", name, " is also chosen by `", place->second.row->layers, "`");
      CheckDivision(name, place->second, ranks);
    }
  }
  return layers;
}

void CheckNotShared(const Module& model, const PlannedLayers& layers) {
  absl::flat_hash_map<const void*, std::string> owner;
  for (const auto& item : model.named_parameters()) {
    const auto [first, is_new] = owner.try_emplace(item.value().unsafeGetTensorImpl(), item.key());
    if (is_new) continue;
    for (const auto& [name, layer] : layers) {
      if (!layer.linear.has_value()) continue;
      for (const std::string& param : {absl::StrCat(name, ".weight"), absl::StrCat(name, ".bias")}) {
        TORCH_CHECK_VALUE(param != item.key() && param != first->second, Row(*layer.row), "layer ", name,
                          " cannot be split: ", first->second, " and ", item.key(), " are one parameter");
      }
    }
  }
}

// Follows the features through the layers with parameters, in the order of the model.
class FeatureFlow {
 public:
  void Pass(const std::string& name, const PlannedLayer* layer) {
    const bool takes_part = layer != nullptr && layer->row->style == ParallelStyle::kRowwise;
    if (takes_part) {
      const int64_t in = layer->linear->in;
      TORCH_CHECK_VALUE(split_ == in, Row(*layer->row), "layer ", name, " takes a part of ", in,
                        " features, but the layers before it give ",
                        split_ == 0 ? "whole ones" : absl::StrCat("parts of ", split_).c_str(),
                        ": it must follow a ColwiseParallel layer of as many");
      split_ = 0;
      return;
    }
    if (layer == nullptr || layer->row->style == ParallelStyle::kGatherColwise) {
      TORCH_CHECK_VALUE(split_ == 0, Row(*splitter_->row), "layer ", name, " would get a part of the ", split_,
                        " features of ", splitter_name_, ": name it in the plan, or one before it RowwiseParallel");
      return;
    }
    const int64_t out = layer->linear->out / layer->linear->division.parts;
    if (split_ != 0 && SharesHeads(*layer, out)) return;
    TORCH_CHECK_VALUE(split_ == 0 || split_ == out, Row(*layer->row), "layer ", name, " gives parts of ", out,
                      " features next to parts of ", split_, " of ", splitter_name_);
    split_ = out;
    splitter_ = layer;
    splitter_name_ = name;
  }
  void End() const {
    TORCH_CHECK_VALUE(split_ == 0, Row(*splitter_->row), "the ", split_, " features of ", splitter_name_,
                      " stay apart: a RowwiseParallel layer must follow, or choose GatherColwiseParallel");
  }

 private:
  // Keys and values of grouped-query attention have fewer heads than the queries before them, of the same width.
  bool SharesHeads(const PlannedLayer& layer, int64_t out) const {
    const int64_t heads = layer.linear->division.units, queries = splitter_->linear->division.units;
    return heads > 0 && queries > 0 && queries % heads == 0 && out / heads == split_ / queries;
  }

  int64_t split_ = 0;  // the features of which each rank has a part; 0: whole
  const PlannedLayer* splitter_ = nullptr;
  std::string splitter_name_;
};

void CheckFlow(const Module& model, const PlannedLayers& layers) {
  FeatureFlow flow;
  for (const auto& item : model.named_modules("", /*include_self=*/false)) {
    if (item.value()->parameters(/*recurse=*/false).empty()) continue;
    const auto layer = layers.find(item.key());
    if (layer != layers.end() && !layer->second.linear.has_value()) continue;
    flow.Pass(item.key(), layer == layers.end() ? nullptr : &layer->second);
  }
  flow.End();
}

// Returns the planned layers under the same parent.
std::vector<const PlannedLayer*> LayersBeside(const std::string& name, const PlannedLayers& layers) {
  const std::string around = name.substr(0, name.rfind('.') + 1);
  std::vector<const PlannedLayer*> beside;
  for (auto it = layers.lower_bound(around); it != layers.end() && absl::StartsWith(it->first, around); ++it)
    beside.push_back(&it->second);
  return beside;
}

// Attention gets some of the heads when a layer beside it is split.
void DivideAttention(const Module& model, const PlannedLayers& layers, const Communicator& group) {
  for (const auto& item : model.named_modules("", /*include_self=*/false)) {
    auto* core = dynamic_cast<AttentionCore*>(item.value().get());
    if (core == nullptr) continue;
    const auto beside = LayersBeside(item.key(), layers);
    TORCH_CHECK_VALUE(beside.empty() || core->TakeHeads(group.rank(), group.world_size()), Row(*beside[0]->row),
                      "layer ", item.key(), " is a ", item.value()->name(),
                      ", which must see all heads; leave the row out, or what put it there");
  }
}

// A layer that sees a part has the gradients of that part; with those of the other ranks they are whole.
void SumGradients(const Module& model, const PlannedLayers& layers, Communicator& group) {
  for (const auto& [name, layer] : layers) {
    if (layer.linear.has_value()) continue;
    const auto beside = LayersBeside(name, layers);
    const bool sees_heads = std::any_of(beside.begin(), beside.end(), [](const PlannedLayer* other) {
      return other->row->style == ParallelStyle::kColwise && other->linear->division.units > 0;
    });
    TORCH_CHECK_VALUE(sees_heads, Row(*layer.row), "layer ", name,
                      " is not given some of the heads: it must be beside a ColwiseParallel layer that makes heads");
    for (const auto& item : model.named_parameters()) {
      const bool is_own = absl::StartsWith(item.key(), absl::StrCat(name, "."));
      if (!is_own || !item.value().requires_grad()) continue;
      item.value().register_hook([&group](const at::Tensor& grad) {
        const at::Tensor sum = grad.clone(at::MemoryFormat::Contiguous);
        group.AllReduceSum(sum);
        return sum;
      });
    }
  }
}

}  // namespace

void SplitByPlan(Module& model, const LayerPlan& plan, Communicator& group) {
  const PlannedLayers layers = LayersOf(model, plan, group.world_size());
  CheckNotShared(model, layers);
  CheckFlow(model, layers);
  DivideAttention(model, layers, group);
  SumGradients(model, layers, group);
  ReplaceLayers(model, [&](const std::string& name, const std::shared_ptr<Module>&) {
    const auto found = layers.find(name);
    std::shared_ptr<Module> part;
    if (found == layers.end() || !found->second.linear.has_value()) return part;
    const auto& [row, linear] = found->second;
    if (row->style == ParallelStyle::kRowwise) {
      part = std::make_shared<RowwiseLinear>(*linear, group);
    } else {
      part = std::make_shared<ColwiseLinear>(*linear, row->style == ParallelStyle::kGatherColwise, group);
    }
    return part;
  });
}

}  // namespace composer
