// LogitSoftCap bounds a model's logits smoothly, so that none grows without end:
//
//   logits <- cap tanh(logits / cap)
//
// for the linear layer that makes them, found by its name, in training, evaluation and text generation. Parameters
// keep their names. A plan of tensor parallelism does not split it. A tied head (the embedding's weight) is not a
// layer: it must be untied.
//
// Source: Gemma Team 2024 (Gemma 2), arXiv:2408.00118, section 2: final logits capped at 30.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "trainer/algorithms/surgery/surgery.h"
#include "trainer/layers/torch_layers.h"

namespace composer {

struct LogitSoftCapOptions {
  double cap = 30;                // > 0
  std::string layer = "lm_head";  // fnmatch pattern of its name
};

at::Tensor SoftCap(const at::Tensor& logits, double cap);

// A linear layer whose outputs are capped. It has the parameters of the one that it is made from.
class SoftCappedLinear final : public torch::nn::Module, public Layer {
 public:
  SoftCappedLinear(const torch::nn::LinearImpl& linear, double cap);
  at::Tensor forward(const at::Tensor& x) override { return SoftCap(at::linear(x, weight_, bias_), cap_); }

 private:
  at::Tensor weight_, bias_;
  double cap_;
};

class LogitSoftCap final : public Surgery {
 public:
  explicit LogitSoftCap(LogitSoftCapOptions options = {}) : options_(std::move(options)) {}
  std::string name() const override { return "LogitSoftCap"; }
  // Returns kInvalidArgument unless one linear layer has such a name; it names the linear layers that are there.
  absl::Status ChangeModel(Model& model, const ModelContext& context) override;

 protected:
  std::vector<std::pair<std::string, size_t>> LayersOf(const Model& model) const override;

 private:
  LogitSoftCapOptions options_;
};

}  // namespace composer
