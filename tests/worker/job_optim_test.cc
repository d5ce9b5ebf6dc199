// Tests the keys `optimizers`, `schedulers` and `step_schedulers_every_batch` of a job's YAML.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/linear.h>
#include <torch/types.h>

#include "config/config_map.h"
#include "config/yaml.h"
#include "job/job_optimizer.h"
#include "job/job_scheduler.h"

namespace composer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// A model with 0.weight [6, 4] and head.weight [2, 6], and biases.
class Net final : public Model {
 public:
  Net() {
    register_module("0", torch::nn::Linear(4, 6));
    register_module("head", torch::nn::Linear(6, 2));
  }
  Outputs forward(const Batch& batch) override { return batch.inputs; }
  Loss loss(const Outputs& outputs, const Batch&) override { return outputs->sum(); }
  MetricList metrics(bool) const override { return {}; }
};

std::vector<SchedulerFactory> ReadOurSchedulers(ConfigMap root, const PluginTables& plugins) {
  return ReadSchedulers(root, plugins, /*composer_compat=*/false);
}

class JobOptimTest : public ::testing::Test {
 protected:
  // Reads with `read`; the reader's message is in message_.
  template <typename Read>
  auto With(const std::string& yaml, const Read& read) {
    document_ = ParseYaml(yaml, "job.yaml").value();
    ConfigReader reader(document_);
    auto result = read(reader.root(), PluginTables());
    message_ = std::string(reader.Finish().message());
    return result;
  }
  std::unique_ptr<Optimizer> OptimizerOf(const std::string& yaml) {
    const OptimizerFactory factory = With(yaml, ReadOptimizer);
    EXPECT_THAT(message_, IsEmpty());
    return factory(net_);
  }
  std::string OptimizerError(const std::string& yaml) {
    With(yaml, ReadOptimizer);
    return message_;
  }
  std::vector<std::unique_ptr<Scheduler>> SchedulersOf(const std::string& yaml) {
    std::vector<std::unique_ptr<Scheduler>> schedulers;
    for (const SchedulerFactory& factory : With(yaml, ReadOurSchedulers)) schedulers.push_back(factory());
    EXPECT_THAT(message_, IsEmpty());
    return schedulers;
  }
  std::string SchedulerError(const std::string& yaml) {
    With(yaml, ReadOurSchedulers);
    return message_;
  }

  ConfigNode document_;
  std::string message_;
  Net net_;
};

struct UsualCase {
  const char* name;
  const char* class_name;
  double lr;
  double weight_decay;
  double momentum;
};

TEST_F(JobOptimTest, EveryNameHasItsDefaults) {
  const UsualCase cases[] = {
      {"sgd", "SGD", 1e-3, 0, 0},
      {"adam", "Adam", 1e-3, 0, 0.9},
      {"adamw", "AdamW", 1e-3, 1e-2, 0.9},
      {"rmsprop", "RMSprop", 1e-2, 0, 0},
      {"adagrad", "Adagrad", 1e-2, 0, 0},
      {"adadelta", "Adadelta", 1, 0, 0},
      {"adamax", "Adamax", 2e-3, 0, 0.9},
      {"nadam", "NAdam", 2e-3, 0, 0.9},
      {"radam", "RAdam", 1e-3, 0, 0.9},
      {"asgd", "ASGD", 1e-2, 0, 0},
      {"adafactor", "Adafactor", 1e-2, 0, 0},
      {"rprop", "Rprop", 1e-2, 0, 0},
      {"lion", "Lion", 1e-4, 0, 0.9},
      {"muon", "Muon", 1e-3, 0.1, 0.95},
      {"normuon", "NorMuon", 1e-3, 0.1, 0.95},
      {"schedule_free_adamw", "ScheduleFreeAdamW", 2.5e-3, 0, 0},
      {"decoupled_adamw", "DecoupledAdamW", 1e-3, 1e-5, 0.9},
      {"decoupled_sgdw", "DecoupledSGDW", 0.1, 0, 0},
  };
  for (const UsualCase& c : cases) {
    const auto optimizer = OptimizerOf(std::string("optimizers: {name: ") + c.name + "}");
    EXPECT_EQ(optimizer->name(), c.class_name);
    EXPECT_EQ(optimizer->groups()[0].lr, c.lr) << c.name;
    EXPECT_EQ(optimizer->groups()[0].weight_decay, c.weight_decay) << c.name;
    EXPECT_EQ(optimizer->groups()[0].momentum, c.momentum) << c.name;
  }
  EXPECT_EQ(OptimizerOf("{}")->name(), "DecoupledSGDW");
}

TEST_F(JobOptimTest, KeysReachTheOptimizer) {
  const auto sgd = OptimizerOf("optimizers: {name: sgd, lr: 0.2, momentum: 0.8, dampening: 0.1, weight_decay: 0.3}");
  EXPECT_EQ(sgd->groups()[0].momentum, 0.8);
  EXPECT_EQ(sgd->state()[0].first, "group0/started");  // dampening
  const auto rmsprop = OptimizerOf("optimizers: {name: rmsprop, alpha: 0.9, momentum: 0.5, centered: true}");
  EXPECT_EQ(rmsprop->state()[1].first, "0.weight/grad_avg");
  EXPECT_EQ(rmsprop->state()[2].first, "0.weight/momentum_buffer");
  const auto adam = OptimizerOf("optimizers: {name: adam, betas: [0.7, 0.9], amsgrad: true}");
  EXPECT_EQ(adam->groups()[0].momentum, 0.7);
  EXPECT_EQ(adam->state()[3].first, "0.weight/max_exp_avg_sq");
}

TEST_F(JobOptimTest, MuonHasItsAdamW) {
  const auto optimizer = OptimizerOf(R"(
optimizers:
  name: muon
  lr: 0.02
  ns_steps: 4
  ns_coefficients: [2, -1.5, 0.5]
  adjust_lr_fn: match_rms_adamw
  param_groups: [{pattern: "head.*", lr: 0.5}]
  adamw: {lr: 0.003, betas: [0.8, 0.9], weight_decay: 0.2}
)");
  ASSERT_EQ(optimizer->groups().size(), 3u);
  EXPECT_THAT(optimizer->groups()[0].names, ElementsAre("0.weight"));
  EXPECT_EQ(optimizer->groups()[0].lr, 0.02);
  EXPECT_THAT(optimizer->groups()[1].names, ElementsAre("0.bias"));
  EXPECT_EQ(optimizer->groups()[1].lr, 0.003);
  EXPECT_EQ(optimizer->groups()[1].momentum, 0.8);
  EXPECT_EQ(optimizer->groups()[1].weight_decay, 0.2);
  EXPECT_THAT(optimizer->groups()[2].names, ElementsAre("head.weight", "head.bias"));
  EXPECT_EQ(optimizer->groups()[2].lr, 0.5);
  const auto all = OptimizerOf("optimizers: {name: muon, adamw: {patterns: []}}");
  EXPECT_THAT(all->groups()[0].names, ElementsAre("0.weight", "head.weight"));
}

TEST_F(JobOptimTest, OptimizerMistakesAreNamed) {
  EXPECT_THAT(OptimizerError("optimizers: {name: adamv}"), HasSubstr("did you mean `adam`"));
  EXPECT_THAT(OptimizerError("optimizers: {name: sgd, betas: [0.9, 0.9]}"), HasSubstr("optimizers.betas: unknown key"));
  EXPECT_THAT(OptimizerError("optimizers: {name: lion, betas: [0.9]}"), HasSubstr("betas: expected two numbers"));
  EXPECT_THAT(OptimizerError("optimizers: {name: lion, betas: [0.9, 1]}"), HasSubstr("betas: (0.9, 1), allowed are"));
  EXPECT_THAT(OptimizerError("optimizers: {name: rmsprop, alpha: -1}"), HasSubstr("alpha: -1, must be >= 0"));
  EXPECT_THAT(OptimizerError("optimizers: {name: rprop, etas: [2, 3]}"), HasSubstr("eta_minus: 2, must be in (0, 1)"));
  EXPECT_THAT(OptimizerError("optimizers: {name: rprop, step_sizes: [1]}"), HasSubstr("expected two numbers"));
  EXPECT_THAT(OptimizerError("optimizers: {name: nadam, momentum_decay: -1}"), HasSubstr("momentum_decay: -1"));
  EXPECT_THAT(OptimizerError("optimizers: {name: muon, ns_coefficients: [1]}"), HasSubstr("expected three numbers"));
  EXPECT_THAT(OptimizerError("optimizers: {name: normuon, beta2: 1}"), HasSubstr("beta2: 1, must be in [0, 1)"));
  EXPECT_THAT(OptimizerError("optimizers: {name: schedule_free_adamw, betas: [0, 0.9]}"),
              HasSubstr("betas[0]: 0, must be between 0 and 1"));
  EXPECT_THAT(OptimizerError("optimizers: {name: muon, adjust_lr_fn: match}"), HasSubstr("match_rms_adamw"));
  EXPECT_THAT(OptimizerError("optimizers: {name: muon, adamw: {lr: -1}}"), HasSubstr("optimizers.adamw.lr"));
}

Timestamp At(int64_t epoch, int64_t batch) {
  Timestamp now;
  now.epoch = epoch;
  now.batch = batch;
  now.batch_in_epoch = batch - 10 * epoch;
  return now;
}

TEST_F(JobOptimTest, SchedulersStepWhenComposersWould) {
  const ScheduleContext context{Time::Epochs(10), 10, 1, 1};
  const auto factor = [&](const std::string& yaml) { return SchedulersOf(yaml)[0]->Factor(At(2, 25), context); };
  const std::string composers = "schedulers: {name: linear}\n",
                    torchs = "schedulers: {name: exponential_lr, gamma: 0.5}\n";
  EXPECT_DOUBLE_EQ(factor(composers), 0.75);
  EXPECT_DOUBLE_EQ(factor(composers + "step_schedulers_every_batch: false"), 0.8);
  EXPECT_DOUBLE_EQ(factor(torchs), 0.25);
  EXPECT_DOUBLE_EQ(factor(torchs + "step_schedulers_every_batch: true"), std::pow(0.5, 25));
  // One of torch's makes all of them step every epoch.
  EXPECT_DOUBLE_EQ(factor("schedulers: [{name: linear}, {name: step_lr, step_size: 3}]"), 0.8);
  EXPECT_TRUE(SchedulersOf(composers)[0]->lags_in_composer());
  EXPECT_FALSE(SchedulersOf(composers + "step_schedulers_every_batch: false")[0]->lags_in_composer());
  EXPECT_FALSE(SchedulersOf(torchs + "step_schedulers_every_batch: true")[0]->lags_in_composer());
}

TEST_F(JobOptimTest, TorchsSchedulersHaveTorchsArguments) {
  const ScheduleContext context{Time::Epochs(10), 10, 1, 1};
  const auto factor = [&](const std::string& text, int64_t epoch) {
    return SchedulersOf("schedulers: {name: " + text + "}")[0]->Factor(At(epoch, 10 * epoch), context);
  };
  EXPECT_DOUBLE_EQ(factor("step_lr, step_size: 3, gamma: 0.5", 7), 0.25);
  EXPECT_DOUBLE_EQ(factor("multi_step_lr, milestones: [2, 5, 5], gamma: 0.5", 5), 0.125);
  EXPECT_DOUBLE_EQ(factor("linear_lr", 0), 1.0 / 3);
  EXPECT_DOUBLE_EQ(factor("linear_lr, start_factor: 0.5, end_factor: 0.1, total_iters: 4", 9), 0.1);
  EXPECT_NEAR(factor("cosine_annealing_lr, T_max: 6, eta_min: 0.5", 3), 0.75, 1e-12);
  EXPECT_NEAR(factor("cosine_annealing_warm_restarts_lr, T_0: 2, T_mult: 2, eta_min: 0.5", 4), 0.75, 1e-12);
  EXPECT_NEAR(factor("one_cycle_lr, max_lr: 2, anneal_strategy: linear, pct_start: 0.2, div_factor: 2", 1), 2, 1e-12);
  EXPECT_DOUBLE_EQ(factor("constant_lr, factor: 0.5", 4), 0.5);
  EXPECT_DOUBLE_EQ(factor("polynomial_lr, total_iters: 10, power: 2", 5), 0.25);
  EXPECT_NEAR(factor("cyclic_lr, base_lr: 0.5, max_lr: 2, step_size_up: 2, mode: triangular2", 6), 1.25, 1e-12);
  EXPECT_NEAR(factor("cyclic_lr, base_lr: 0.5, max_lr: 2, step_size_up: 2, step_size_down: 1", 5), 2, 1e-12);
  const auto plateau = SchedulersOf(
      "schedulers: {name: reduce_lr_on_plateau, monitor: metrics/eval/CrossEntropy, patience: 0, factor: 0.5}\n"
      "step_schedulers_every_batch: true");
  EXPECT_EQ(plateau[0]->monitor(), "metrics/eval/CrossEntropy");
  EXPECT_TRUE(plateau[0]->observes_every_batch());
  for (int i = 0; i < 2; ++i) plateau[0]->Observe(1);
  EXPECT_EQ(plateau[0]->Factor({}, context), 0.5);
}

TEST_F(JobOptimTest, SchedulerMistakesAreNamed) {
  EXPECT_THAT(SchedulerError("schedulers: {name: step_lt}"), HasSubstr("did you mean `step_lr`"));
  EXPECT_THAT(SchedulerError("schedulers: {name: cosine_anealing}"), HasSubstr("did you mean `cosine_annealing`"));
  EXPECT_THAT(SchedulerError("schedulers: {name: step_lr}"), HasSubstr("schedulers.step_size: is required"));
  EXPECT_THAT(SchedulerError("schedulers: {name: multi_step_lr}"), HasSubstr("milestones: required"));
  EXPECT_THAT(SchedulerError("schedulers: {name: exponential_lr}"), HasSubstr("schedulers.gamma: is required"));
  EXPECT_THAT(SchedulerError("schedulers: {name: cosine_annealing_lr, t_max: 5}"), HasSubstr("t_max: unknown key"));
  EXPECT_THAT(SchedulerError("schedulers: {name: cyclic_lr, max_lr: 1}"), HasSubstr("schedulers.base_lr: is required"));
  EXPECT_THAT(SchedulerError("schedulers: {name: cyclic_lr, base_lr: 2, max_lr: 1}"), HasSubstr("max_lr: 1, must be"));
  EXPECT_THAT(SchedulerError("schedulers: {name: one_cycle_lr}"), HasSubstr("schedulers.max_lr: is required"));
  EXPECT_THAT(SchedulerError("schedulers: {name: reduce_lr_on_plateau, factor: 1}"), HasSubstr("factor: 1, must be"));
  EXPECT_THAT(SchedulerError("schedulers: {name: reduce_lr_on_plateau, mode: avg}"), HasSubstr("min"));
}

}  // namespace
}  // namespace composer
