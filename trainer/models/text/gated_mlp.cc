// SPDX-License-Identifier: Apache-2.0
#include "trainer/models/text/gated_mlp.h"

#include <torch/nn/module.h>
#include <torch/types.h>

#include "trainer/core/module_call.h"
#include "trainer/layers/fused_layers.h"
#include "trainer/models/text/text_layers.h"

namespace composer {

GatedMlp::GatedMlp(const LlamaOptions& options, const Names& names)
    : gate_(*this, names.gate, MakeLinear(options.hidden_size, options.intermediate_size, options.mlp_bias)),
      up_(*this, names.up, MakeLinear(options.hidden_size, options.intermediate_size, options.mlp_bias)),
      down_(*this, names.down, MakeLinear(options.intermediate_size, options.hidden_size, options.mlp_bias)),
      act_(*this, "act_fn", MakeActivation("hidden_act", options.hidden_act)) {}

at::Tensor GatedMlp::forward(const at::Tensor& x) {
  ModuleCall call(*this, x);
  return call.Output(down_->forward(GatedActivation(*act_, gate_->forward(x), up_->forward(x))));
}

SparseExperts::SparseExperts(const LlamaOptions& options)
    : chosen_(options.num_experts_per_tok),
      gate_(*this, "gate", MakeLinear(options.hidden_size, options.num_local_experts, /*bias=*/false)),
      experts_(register_module("experts", std::make_shared<LayerList>())) {
  for (int64_t i = 0; i < options.num_local_experts; ++i)
    experts_->Add(std::make_shared<GatedMlp>(options, GatedMlp::Names{"w1", "w3", "w2"}));
}

at::Tensor SparseExperts::forward(const at::Tensor& x) {
  ModuleCall call(*this, x);
  const at::Tensor tokens = x.reshape({-1, x.size(-1)});
  const auto [weights, experts] = at::softmax(gate_->forward(tokens), -1, at::kFloat).topk(chosen_, -1);
  const at::Tensor shares = (weights / weights.sum(-1, /*keepdim=*/true)).to(x.scalar_type());
  at::Tensor sum = at::zeros_like(tokens);
  for (size_t expert = 0; expert < experts_->size(); ++expert) {
    const std::vector<at::Tensor> found = experts.eq(static_cast<int64_t>(expert)).nonzero().unbind(1);
    const at::Tensor &rows = found[0], &ranks = found[1];
    const at::Tensor y = (*experts_)[expert].forward(tokens.index_select(0, rows));
    sum = sum.index_add(0, rows, (y * shares.index({rows, ranks}).unsqueeze(1)).to(sum.scalar_type()));
  }
  return call.Output(sum.view_as(x));
}

}  // namespace composer
