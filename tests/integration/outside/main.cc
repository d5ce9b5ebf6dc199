// A program outside the project: trains an MLP with the installed library.
// SPDX-License-Identifier: Apache-2.0
#include <cstdio>

#include "trainer/data/synthetic.h"
#include "trainer/models/mlp.h"
#include "trainer/optim/decoupled_adamw.h"
#include "trainer/optim/param_groups.h"
#include "trainer/trainer.h"

int main() {
  using namespace composer;
  TrainerOptions options;
  options.model = MakeMlp({16, 32, 4});
  options.train.dataset = MakeGaussianClassification({.size = 256, .features = 16, .classes = 4}).value();
  options.train.global_train_batch_size = 32;
  options.max_duration = Time::Epochs(5);
  options.make_optimizer = [](Model& model) {
    NamedTensors parameters;
    for (const auto& item : model.named_parameters()) parameters.emplace_back(item.key(), item.value());
    return std::make_unique<DecoupledAdamW>(MakeParamGroups(parameters, {.lr = 1e-2}).value(), AdamWOptions{});
  };
  auto trainer = Trainer::Create(std::move(options));
  if (!trainer.ok() || !(*trainer)->Fit().ok()) return 1;
  std::printf("steps %lld loss %.3f\n", static_cast<long long>((*trainer)->state().timestamp.batch), (*trainer)->state().step.loss);
}
