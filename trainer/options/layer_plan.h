// A LayerPlan says how tensor parallelism splits the Linear layers of any model: Composer's
// `parallelism_config: {tp: {layer_plan: …}}`. Names are those of torch/distributed/tensor/parallel/style.py and
// composer/distributed/shared_utils.py (GatherColwiseParallel).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace composer {

enum class ParallelStyle {
  kColwise,        // each rank computes some of the output's features; what follows gets those
  kRowwise,        // each rank has some of the input's features, and the products are summed over ranks
  kGatherColwise,  // like kColwise, and every rank gets the whole output
  kSequence,       // the layer treats all heads alike, as a norm of each head does: it is whole on every rank, is given
                   // that rank's heads, and its gradients are summed
};

struct LayerPlanRow {
  std::string layers;  // a type or a pattern of names (layers/layer_selector.h)
  ParallelStyle style;
};
using LayerPlan = std::vector<LayerPlanRow>;

// Returns "ColwiseParallel" and so on.
inline const char* StyleName(ParallelStyle style) {
  return style == ParallelStyle::kColwise         ? "ColwiseParallel"
         : style == ParallelStyle::kRowwise       ? "RowwiseParallel"
         : style == ParallelStyle::kGatherColwise ? "GatherColwiseParallel"
                                                  : "SequenceParallel";
}

}  // namespace composer
