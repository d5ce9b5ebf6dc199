// GatedLinearUnits makes the feed-forward networks of transformers gated:
//
//   W2 act(W1 x + b1)  becomes  W2 (act(W1 x) * W3 x)
//
// A feed-forward network is a module with the layers `fc` (Linear), `proj` (Linear) and an activation between them,
// `gelu`, as gpt's are, or one with `dense` (Linear) and `intermediate_act_fn`, as BERT's. W1 and W3 are new, as wide
// as W1 was and start as torch's Linear does; W2 stays. (Composer's makes W2 and BERT's norm anew.)
//
// Source: Shazeer 2020, arXiv:2002.05202; mosaicml composer/algorithms/gated_linear_units, which is for BERT only.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "trainer/algorithms/surgery/surgery.h"
#include "trainer/layers/slot.h"

namespace composer {

enum class GateActivation { kGelu, kGeluTanh, kRelu, kSilu, kSigmoid };

struct GatedLinearUnitsOptions {
  std::optional<GateActivation> act_fn;  // unset: the network's own
  bool gated_layer_bias = false;         // of W1
  bool non_gated_layer_bias = false;     // of W3
};

// Maps [*, in] to act(W1 x) * W3 x [*, out]. Parameters: gated_layer.weight (W1), non_gated_layer.weight (W3), and
// their biases.
class GatedLinear final : public torch::nn::Module, public Layer {
 public:
  // `act` is a Layer.
  GatedLinear(int64_t in, int64_t out, const GatedLinearUnitsOptions& options, std::shared_ptr<torch::nn::Module> act);
  at::Tensor forward(const at::Tensor& x) override {
    return act_->forward(gated_layer_->forward(x)) * non_gated_layer_->forward(x);
  }

 private:
  Slot<Layer> gated_layer_, non_gated_layer_, act_;
};

class GatedLinearUnits final : public Surgery {
 public:
  explicit GatedLinearUnits(const GatedLinearUnitsOptions& options = {}) : options_(options) {}
  std::string name() const override { return "GatedLinearUnits"; }
  absl::Status ChangeModel(Model& model, const ModelContext& context) override;

 protected:
  std::vector<std::pair<std::string, size_t>> LayersOf(const Model& model) const override;
  std::string wanted() const override {
    return "feed-forward network with `fc`, `gelu` and `proj`, or `dense` and `intermediate_act_fn`";
  }

 private:
  GatedLinearUnitsOptions options_;
};

}  // namespace composer
