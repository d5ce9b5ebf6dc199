// SPDX-License-Identifier: Apache-2.0
#include "tests/trainer/optim/optimizer_golden.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "absl/strings/str_cat.h"
#include "base/file.h"

namespace composer {
namespace {

using Json = nlohmann::json;

std::vector<at::Tensor> Tensors(const Json& flat, const Json& shapes) {
  std::vector<at::Tensor> result;
  for (size_t i = 0; i < shapes.size(); ++i) {
    result.push_back(torch::tensor(flat[i].get<std::vector<double>>(), torch::kFloat)
                         .reshape(shapes[i].get<std::vector<int64_t>>()));
  }
  return result;
}

}  // namespace

std::vector<ParamGroup> OneGroup(const std::vector<at::Tensor>& params, double lr, double weight_decay) {
  ParamGroup group;
  group.lr = group.initial_lr = lr;
  group.weight_decay = weight_decay;
  for (const at::Tensor& param : params) {
    group.names.push_back(absl::StrCat("p", group.params.size()));
    group.params.push_back(param);
  }
  return {group};
}

int ReplayGolden(const std::string& name, const MakeOptimizer& make, double tolerance) {
  const Json golden = Json::parse(ReadFile("tests/golden/optimizers.json").value());
  int runs = 0;
  for (const Json& run : golden["runs"]) {
    if (run["optimizer"] != name) continue;
    ++runs;
    std::vector<at::Tensor> params = Tensors(golden["params"], golden["shapes"]);
    for (at::Tensor& param : params) param.requires_grad_(true);
    const std::vector<double> lrs = golden["lrs"];
    const auto optimizer = make(OneGroup(params, lrs[0], run["args"]["weight_decay"]), run["args"]);
    for (size_t step = 0; step < lrs.size(); ++step) {
      const auto grads = Tensors(golden["grads"][step], golden["shapes"]);
      for (size_t i = 0; i < params.size(); ++i) params[i].mutable_grad() = grads[i];
      optimizer->groups()[0].lr = lrs[step];
      optimizer->Step();
      const auto after = run["params_after"].find(std::to_string(step + 1));
      if (after == run["params_after"].end()) continue;
      const auto expected = Tensors(*after, golden["shapes"]);
      for (size_t i = 0; i < params.size(); ++i) {
        EXPECT_LT((params[i].detach() - expected[i]).abs().max().item<double>(), tolerance)
            << run["args"] << " update " << step + 1 << " parameter " << i;
      }
    }
  }
  return runs;
}

void CopyState(Optimizer& from, Optimizer& to) {
  const torch::NoGradGuard no_grad;
  NamedTensors source = from.state(), target = to.state();
  ASSERT_EQ(source.size(), target.size());
  for (size_t i = 0; i < source.size(); ++i) {
    EXPECT_EQ(source[i].first, target[i].first);
    target[i].second.copy_(source[i].second);
  }
}

}  // namespace composer
