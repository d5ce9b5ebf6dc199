// A run's state for tests of what is written for PyTorch.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/types.h>

#include <string>

#include "checkpoint/format/state_dict.h"

namespace composer {

// Its time.
inline constexpr char kSavedTime[] =
    R"({"iteration":0,"epoch":1,"batch":7,"sample":70,"token":0,"epoch_in_iteration":1,"token_in_iteration":0,)"
    R"("batch_in_epoch":2,"sample_in_epoch":20,"token_in_epoch":0,"total_wct":90000.25,"iteration_wct":1.5,)"
    R"("epoch_wct":0.5,"batch_wct":0.000001})";

// The state of a run with two groups of parameters, an empty tensor and an algorithm.
inline StateDict SavedRun(const std::string& optimizer) {
  StateDict state;
  state.tensors = {{"model/fc.weight", torch::arange(6, at::kFloat).view({2, 3}) / 3},
                   {"model/fc.bias", torch::arange(2, at::kBFloat16)},
                   {"model/steps", torch::tensor(int64_t{7})},
                   {"model/empty", torch::empty({0, 4})},
                   {"optimizer/fc.weight/exp_avg", torch::ones({2, 3})},
                   {"optimizer/fc.weight/exp_avg_sq", torch::full({2, 3}, 2)},
                   {"optimizer/fc.bias/exp_avg", torch::full({2}, 3)},
                   {"optimizer/fc.bias/exp_avg_sq", torch::full({2}, 4)},
                   {"optimizer/group0/step", torch::tensor({7.0F})},
                   {"optimizer/group1/step", torch::tensor({5.0F})}};
  state.small = {
      {"timestamp", kSavedTime},
      {"data", R"({"seed":17})"},
      {"scaler", R"({"scale":1024.0,"good_steps":3,"skipped_steps":0})"},
      {"algorithms/EMA", "{}"},
      {"optimizer",
       R"({"class":")" + optimizer +
           R"(","groups":[{"params":["fc.weight"],"lr":0.1,"initial_lr":0.2,"weight_decay":0,"betas":[0.9,0.95],)"
           R"("eps":1e-8,"amsgrad":false},{"params":["fc.bias"],"lr":1,"initial_lr":2,"weight_decay":0.5,)"
           R"("betas":[0.9,0.95],"eps":1e-8,"amsgrad":false}]})"}};
  return state;
}

}  // namespace composer
