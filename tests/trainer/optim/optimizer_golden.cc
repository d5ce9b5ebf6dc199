// SPDX-License-Identifier: Apache-2.0
#include "tests/trainer/optim/optimizer_golden.h"

#include <gtest/gtest.h>
#include <torch/types.h>

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

namespace {

// Returns the golden file's groups over these parameters, with the learning rates of step 0.
std::vector<ParamGroup> GoldenGroups(const Json& golden, const std::vector<at::Tensor>& params, double weight_decay) {
  std::vector<ParamGroup> groups;
  const double lr = golden["lrs"][0];
  for (const Json& entry : golden["groups"]) {
    ParamGroup group;
    group.lr = group.initial_lr = lr * entry["lr"].get<double>();
    group.weight_decay = weight_decay * entry["weight_decay"].get<double>();
    for (const size_t i : entry["params"]) {
      group.params.push_back(params[i]);
      group.names.push_back(absl::StrCat("p", i));
    }
    groups.push_back(std::move(group));
  }
  return groups;
}

void ReplayRun(const Json& golden, const Json& run, const MakeOptimizer& make, double tolerance, double share) {
  const std::vector<at::Tensor> initial = Tensors(golden["params"], golden["shapes"]);
  std::vector<at::Tensor> params;
  for (const at::Tensor& param : initial) params.push_back(param.clone().requires_grad_(true));
  const auto optimizer = make(GoldenGroups(golden, params, run["args"]["weight_decay"]), run["args"]);
  const std::vector<double> lrs = golden["lrs"];
  int compared = 0;
  for (size_t step = 0; step < lrs.size(); ++step) {
    const auto grads = Tensors(golden["grads"][step], golden["shapes"]);
    for (size_t i = 0; i < params.size(); ++i) params[i].mutable_grad() = grads[i];
    for (ParamGroup& group : optimizer->groups()) group.lr = group.initial_lr * lrs[step] / lrs[0];
    optimizer->Step();
    const auto after = run["params_after"].find(std::to_string(step + 1));
    if (after == run["params_after"].end()) continue;
    ++compared;
    const auto expected = Tensors(*after, golden["shapes"]);
    for (size_t i = 0; i < params.size(); ++i) {
      const double allowed = tolerance + share * (expected[i] - initial[i]).abs().max().item<double>();
      EXPECT_LE((params[i].detach() - expected[i]).abs().max().item<double>(), allowed)
          << run["optimizer"] << run["args"] << " update " << step + 1 << " parameter " << i;
    }
  }
  EXPECT_EQ(compared, 5);
}

}  // namespace

int ReplayGolden(const std::string& file, const std::string& name, const MakeOptimizer& make, double tolerance,
                 double share) {
  const Json golden = Json::parse(ReadFile(absl::StrCat("tests/golden/", file, ".json")).value());
  int runs = 0;
  for (const Json& run : golden["runs"]) {
    if (run["optimizer"] != name) continue;
    ++runs;
    ReplayRun(golden, run, make, tolerance, share);
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
