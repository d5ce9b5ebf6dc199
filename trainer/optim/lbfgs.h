// LBFGS, limited-memory BFGS, by LibTorch's torch::optim::LBFGS: several evaluations of the loss in a step, and a
// history of directions whose memory is 2 history_size + 2 times that of the parameters, allocated at the start. It is
// for full batches: the loss of a step's batch is what a step minimises. One parameter group, parameters of one dtype
// and device, whole on every rank: not with sharding or tensor parallelism. No weight decay.
// Source: Nocedal & Wright 2006, chapters 3 and 7; torch/optim/lbfgs.py.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "trainer/core/optimizer.h"

namespace composer {

// The names and defaults are torch's.
struct LbfgsOptions {
  int64_t max_iter = 20;           // iterations in a step, >= 1
  int64_t max_eval = 0;            // evaluations in a step; 0: max_iter * 5 / 4
  double tolerance_grad = 1e-7;    // >= 0; on the largest element of the gradient
  double tolerance_change = 1e-9;  // >= 0; on the loss and on the parameters
  int64_t history_size = 100;      // >= 1
  bool strong_wolfe = false;       // line_search_fn: strong_wolfe; else steps of length lr
};

// Returns kInvalidArgument that names the field, its value and its range.
absl::Status Validate(const LbfgsOptions& options);

class LbfgsOptimizer final : public Optimizer {
 public:
  // Throws c10::ValueError unless there is one group, without weight decay, of one floating-point dtype and device.
  LbfgsOptimizer(std::vector<ParamGroup> groups, const LbfgsOptions& options);
  ~LbfgsOptimizer() override;
  std::string name() const override { return "LBFGS"; }
  absl::string_view needs_whole_parameters() const override { return "lbfgs needs all parameters"; }
  // LBFGS has no step without a closure.
  void Step() override;
  bool needs_closure() const override { return true; }
  // When the closure refuses, parameters and state are as before the step.
  void StepWith(LossClosure& closure) override;
  // Returns "group0/d", "group0/old_dirs", …: torch's state, flattened, with the history at its full size.
  NamedTensors state() override;

 private:
  struct Torch;  // keeps torch/optim out of this header
  void ReadState();
  void WriteState();

  LbfgsOptions options_;
  std::vector<at::Tensor> params_;
  std::unique_ptr<Torch> torch_;
  at::Tensor d_, prev_flat_grad_;   // [n]
  at::Tensor old_dirs_, old_stps_;  // [history_size, n]
  at::Tensor ro_;                   // [history_size]
  at::Tensor h_diag_;               // scalar
  at::Tensor numbers_;              // double [5]: func_evals, n_iter, t, prev_loss, length of the history
};

}  // namespace composer
