// An optimizer gives an element the same bits whether it sees the whole parameter or a piece of it, wherever a vector
// loop ends and its scalar tail begins. determinism: elastic requires this of the optimizers that may be sharded.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/Parallel.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "trainer/optim/decoupled_adamw.h"
#include "trainer/optim/decoupled_sgdw.h"
#include "trainer/optim/lion.h"
#include "trainer/optim/rmsprop.h"
#include "trainer/optim/sgd.h"
#include "trainer/optim/torch_optimizers.h"
#include "trainer/parallel/fsdp/flat_layout.h"

namespace composer {
namespace {

constexpr int kSteps = 7;

using Groups = std::vector<ParamGroup>;
using Make = std::function<std::unique_ptr<Optimizer>(Groups)>;

const std::vector<std::pair<const char*, Make>>& Optimizers() {
  static const auto& made = *new std::vector<std::pair<const char*, Make>>{
      {"Adam", [](Groups g) { return std::make_unique<AdamOptimizer>(std::move(g), AdamOptions{}); }},
      {"AdamW amsgrad",
       [](Groups g) { return std::make_unique<AdamWOptimizer>(std::move(g), AdamOptions{.amsgrad = true}); }},
      {"DecoupledAdamW",
       [](Groups g) { return std::make_unique<DecoupledAdamWOptimizer>(std::move(g), AdamWOptions{}); }},
      {"SGD", [](Groups g) { return std::make_unique<SgdOptimizer>(std::move(g), SgdOptions{}); }},
      {"SGD nesterov",
       [](Groups g) {
         return std::make_unique<SgdOptimizer>(std::move(g), SgdOptions{.momentum = 0.9, .nesterov = true});
       }},
      {"DecoupledSGDW",
       [](Groups g) {
         return std::make_unique<DecoupledSgdwOptimizer>(std::move(g), SgdwOptions{.momentum = 0.9, .dampening = 0.1});
       }},
      {"Lion", [](Groups g) { return std::make_unique<LionOptimizer>(std::move(g), LionOptions{}); }},
      {"NAdam", [](Groups g) { return std::make_unique<NAdamOptimizer>(std::move(g), NAdamOptions{}); }},
      {"Rprop", [](Groups g) { return std::make_unique<RpropOptimizer>(std::move(g), RpropOptions{}); }},
      {"RMSprop", [](Groups g) {
         return std::make_unique<RmspropOptimizer>(std::move(g), RmspropOptions{.momentum = 0.9, .centered = true});
       }}};
  return made;
}

// Steps a parameter that consists of `pieces`. Returns its values and the state of its elements.
std::vector<at::Tensor> Train(const Make& make, const at::Tensor& start, const std::vector<at::Tensor>& gradients,
                              const std::vector<std::pair<int64_t, int64_t>>& pieces) {
  ParamGroup group;
  group.lr = group.initial_lr = 0.013;
  group.weight_decay = 0.037;
  for (const auto& [begin, end] : pieces) {
    group.params.push_back(start.narrow(0, begin, end - begin).clone().requires_grad_(true));
    group.names.push_back("p" + std::to_string(group.names.size()));
  }
  const std::vector<at::Tensor> params = group.params;
  const std::unique_ptr<Optimizer> optimizer = make({group});
  for (const at::Tensor& gradient : gradients) {
    for (size_t i = 0; i < pieces.size(); ++i)
      params[i].mutable_grad() = gradient.narrow(0, pieces[i].first, params[i].numel()).clone();
    optimizer->Step();
  }
  std::vector<at::Tensor> result = {torch::cat(params).detach()};
  // Maps each kind of state to the pieces in order: names are "<parameter>/<kind>".
  std::map<std::string, std::vector<at::Tensor>> kinds;
  for (const auto& [name, tensor] : optimizer->state()) {
    if (name[0] == 'p') kinds[name.substr(name.find('/'))].push_back(tensor.detach().view(-1));
  }
  for (const auto& [kind, parts] : kinds) result.push_back(torch::cat(parts));
  return result;
}

TEST(OptimizerPieces, HaveTheBitsOfTheWhole) {
  at::set_num_threads(1);
  for (const auto& [name, make] : Optimizers()) {
    for (const int64_t numel : {33, 100, 1000, 1023}) {
      torch::manual_seed(numel);
      const at::Tensor start = torch::randn({numel});
      std::vector<at::Tensor> gradients;
      for (int i = 0; i < kSteps; ++i) gradients.push_back(torch::randn({numel}) * (i + 1) * 1e-3);
      const std::vector<at::Tensor> whole = Train(make, start, gradients, {{0, numel}});
      for (const int64_t cut : {kFlatAlignment, 3 * kFlatAlignment, 31 * kFlatAlignment}) {
        if (cut >= numel) continue;
        const std::vector<at::Tensor> pieces = Train(make, start, gradients, {{0, cut}, {cut, numel}});
        ASSERT_EQ(pieces.size(), whole.size());
        for (size_t i = 0; i < whole.size(); ++i)
          EXPECT_TRUE(pieces[i].equal(whole[i])) << name << ", " << numel << " cut at " << cut << ", state " << i;
      }
    }
  }
}

}  // namespace
}  // namespace composer
