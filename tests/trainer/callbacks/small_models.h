// Tiny models for the tests of callbacks.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/nn/module.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>

#include <memory>
#include <string>

#include "trainer/core/model.h"
#include "trainer/core/optimizer.h"

namespace composer {

// y = x W^T + b, W [2, 2] = {{3, 4}, {0, 0}}, b = {0, 2}, with a buffer "seen" [1].
class LinearModel final : public Model {
 public:
  LinearModel() : fc_(register_module("fc", torch::nn::Linear(2, 2))) {
    const torch::NoGradGuard no_grad;
    fc_->weight.copy_(torch::tensor({{3.0F, 4.0F}, {0.0F, 0.0F}}));
    fc_->bias.copy_(torch::tensor({0.0F, 2.0F}));
    register_buffer("seen", torch::full({1}, 5.0F));
  }
  Outputs forward(const Batch& batch) override { return fc_->forward(batch.inputs); }
  Loss loss(const Outputs& outputs, const Batch&) override { return outputs->sum(); }
  MetricList metrics(bool) const override { return {}; }

 private:
  torch::nn::Linear fc_;
};

// p -= lr * g, with the gradient as its momentum. All parameters are in one group, with the model's names.
class PlainSgd final : public Optimizer {
 public:
  explicit PlainSgd(Model& model, double lr) : Optimizer(std::vector<ParamGroup>(1)) {
    ParamGroup& group = groups()[0];
    for (const auto& item : model.named_parameters()) {
      group.names.push_back(item.key());
      group.params.push_back(item.value());
      momentum_.push_back(torch::zeros_like(item.value()));
    }
    group.lr = group.initial_lr = lr;
  }
  std::string name() const override { return "DecoupledSGDW"; }
  void Step() override {
    const torch::NoGradGuard no_grad;
    const ParamGroup& group = groups()[0];
    for (size_t i = 0; i < group.params.size(); ++i) {
      if (!group.params[i].grad().defined()) continue;
      momentum_[i].copy_(group.params[i].grad());
      at::Tensor(group.params[i]).sub_(group.params[i].grad(), group.lr);
    }
  }
  NamedTensors state() override {
    NamedTensors state;
    for (size_t i = 0; i < momentum_.size(); ++i)
      state.emplace_back(groups()[0].names[i] + "/momentum_buffer", momentum_[i]);
    return state;
  }

 private:
  std::vector<at::Tensor> momentum_;
};

}  // namespace composer
