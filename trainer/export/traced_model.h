// What a model's forward computes, as a graph of LibTorch's operators: the model runs once with an example, and each
// operator that it calls is recorded. Branches of the model are those that the example took; sizes are the example's.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/csrc/jit/ir/ir.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "trainer/core/model.h"

namespace composer {

struct TracedModel {
  std::shared_ptr<torch::jit::Graph> graph;  // its values have types with sizes
  std::vector<std::string> inputs;           // in the order of the graph's: "inputs", then the batch's extras
  std::vector<std::string> outputs;          // "outputs", or the names of a model with several
  std::map<const void*, std::string> names;  // of parameters and buffers, by the address of their data
};

// kFolded: what does not depend on the inputs is computed, and is a constant of the graph. kAsCalled: it stays as it
// was called, so that sizes can be told from other numbers.
enum class TraceForm { kFolded, kAsCalled };

// Runs eval_forward in evaluation mode, without gradients. The model is left as it was. Throws what the model throws.
TracedModel TraceModel(Model& model, const Batch& example, TraceForm form);

}  // namespace composer
