// Tests what evaluates and saves an average that is computed when it is needed: Schedule-Free AdamW and LAWA. Their
// averages by formula and by schedulefree 1.4.1, what checkpoints hold, resumes on one rank and more, and mistakes.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/file.h"
#include "tests/support/temp_dir.h"
#include "tests/trainer/algorithms/ema_runs.h"
#include "tests/trainer/optim/optimizer_golden.h"
#include "tests/trainer/parallel/fsdp_runs.h"
#include "trainer/algorithms/lawa.h"
#include "trainer/algorithms/optimisation/sam.h"
#include "trainer/algorithms/schedule_free_adamw.h"

namespace composer {
namespace {

using testing::HasSubstr;
using Json = nlohmann::json;

ScheduleFreeOptions FreeArgs(const Json& args) {
  ScheduleFreeOptions options;
  if (args.contains("betas")) options.beta1 = args["betas"][0], options.beta2 = args["betas"][1];
  options.eps = args.value("eps", options.eps);
  options.r = args.value("r", options.r);
  options.weight_lr_power = args.value("weight_lr_power", options.weight_lr_power);
  return options;
}

TEST(ScheduleFreeAdamW, AgreesWithSchedulefree) {
  // Looks at the averages as each optimizer is done with.
  struct Watched final : Optimizer {
    Watched(std::unique_ptr<ScheduleFreeAdamWOptimizer> made, std::vector<at::Tensor>* averages)
        : Optimizer({}), made(std::move(made)), averages(averages) {}
    ~Watched() override {
      averages->clear();
      for (const ParamGroup& group : groups()) {
        for (const at::Tensor& param : group.params) averages->push_back(made->Average(param).flatten());
      }
    }
    std::string name() const override { return made->name(); }
    void Step() override { made->Step(); }
    NamedTensors state() override { return made->state(); }
    std::vector<ParamGroup>& groups() override { return made->groups(); }
    std::unique_ptr<ScheduleFreeAdamWOptimizer> made;
    std::vector<at::Tensor>* averages;
  };
  const Json golden = Json::parse(ReadFile("tests/golden/schedule_free.json").value());
  std::vector<std::vector<at::Tensor>> averages(golden["runs"].size());
  size_t next = 0;
  const auto make = [&](std::vector<ParamGroup> groups, const Json& args) -> std::unique_ptr<Optimizer> {
    auto made = std::make_unique<ScheduleFreeAdamWOptimizer>(std::move(groups), FreeArgs(args));
    return std::make_unique<Watched>(std::move(made), &averages[next++]);
  };
  EXPECT_EQ(ReplayGolden("schedule_free", "AdamWScheduleFree", make, 2e-6), 3);
  for (size_t run = 0; run < averages.size(); ++run) {
    const Json& expected = golden["runs"][run]["averages"];
    ASSERT_EQ(averages[run].size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      const at::Tensor values = torch::tensor(expected[i].get<std::vector<float>>());
      EXPECT_LE((averages[run][i] - values).abs().max().item<double>(), 2e-6) << run << " " << i;
    }
  }
}

// With a constant rate and one weight: x is the plain mean of all z, and y between the two.
TEST(ScheduleFreeAdamW, IsTheMeanOfItsSteps) {
  const at::Tensor weight = torch::full({2}, 1.0F).requires_grad_(true);
  ScheduleFreeAdamWOptimizer optimizer(OneGroup({weight}, 0.1, 0), {.beta2 = 0});
  EXPECT_TRUE(optimizer.Average(weight).equal(weight));
  EXPECT_FALSE(optimizer.Average(weight).is_same(weight));
  for (int step = 0; step < 3; ++step) {
    weight.mutable_grad() = torch::full({2}, 5.0F);  // over the root of its square: 1
    optimizer.Step();
  }
  // z: 0.9, 0.8, 0.7; x: their mean.
  EXPECT_TRUE(torch::allclose(optimizer.Average(weight), torch::full({2}, 0.8F)));
  EXPECT_TRUE(torch::allclose(weight.detach(), torch::full({2}, 0.1F * 0.7F + 0.9F * 0.8F)));
  optimizer.Restart();
  EXPECT_TRUE(optimizer.Average(weight).equal(weight));
}

TEST(Lawa, MeansAreOfTheSnapshots) {
  const auto of = [](float value) {
    return std::vector<at::Tensor>{torch::full({2}, value), torch::full({1}, -value)};
  };
  const std::vector<at::Tensor> means = MeanOfSnapshots({of(1), of(2), of(6)});
  EXPECT_TRUE(means[0].equal(torch::full({2}, 3.0F)));
  EXPECT_TRUE(means[1].equal(torch::full({1}, -3.0F)));
}

struct AverageMesh {
  int ranks = 1;
  bool sharded = false;
};

enum class Averaging { kScheduleFree, kLawa };
constexpr LawaOptions kLatestThree = {.k = 3, .interval = Time::Batches(2)};

// 10 batches; the model has frozen and shared parameters, and is evaluated every 3 batches.
TrainerOptions AveragedRun(Averaging kind, const AverageMesh& mesh, const std::string& folder, int64_t batches) {
  Case c;
  c.shape.frozen = c.shape.tied = true;
  TrainerOptions options = OptionsOf(c);
  options.virtual_shards = 4;
  options.max_duration = Time::Batches(batches);
  if (mesh.sharded) options.fsdp.emplace();
  options.save.save_folder = folder;
  options.save.save_interval = Time::Batches(100);
  EvaluatorOptions evaluator;
  evaluator.dataset = MakeRows(24, 8, 4, 0, 3);
  evaluator.batch_size = 8;
  evaluator.eval_interval = Time::Batches(3);
  evaluator.metric_names = {"CrossEntropy"};
  options.evaluators.push_back(evaluator);
  if (kind == Averaging::kScheduleFree) options.make_optimizer = ScheduleFreeAdamW(0.01);
  if (kind == Averaging::kLawa) options.algorithms.push_back(std::make_unique<Lawa>(kLatestThree));
  return options;
}

RunResult TrainAveraged(Averaging kind, const AverageMesh& mesh, const std::string& folder, int64_t batches = 10) {
  return TrainOnRanks(mesh.ranks, [&](int) { return AveragedRun(kind, mesh, folder, batches); })[0];
}

TEST(AveragedWeights, ResumeBitForBitOnAnyMesh) {
  for (const Averaging kind : {Averaging::kScheduleFree, Averaging::kLawa}) {
    const TempDir whole;
    const RunResult alone = TrainAveraged(kind, {}, whole.path());
    ASSERT_TRUE(alone.status.ok()) << alone.status;
    const StateDict expected = NewestCheckpoint(whole.path());
    for (const AverageMesh& mesh : {AverageMesh{}, {2}, {2, true}}) {
      SCOPED_TRACE(testing::Message() << static_cast<int>(kind) << " on " << mesh.ranks << (mesh.sharded ? " s" : ""));
      const TempDir parts;
      for (const int64_t batches : {1, 3, 7}) {
        const RunResult part = TrainAveraged(kind, mesh, parts.path(), batches);
        ASSERT_TRUE(part.status.ok()) << part.status;
      }
      const RunResult resumed = TrainAveraged(kind, {}, parts.path());
      EXPECT_FALSE(resumed.resumed_from.empty());
      EXPECT_EQ(LargestDifference(resumed, alone), 0);
      EXPECT_EQ(resumed.eval_results, alone.eval_results);
      const StateDict saved = NewestCheckpoint(parts.path());
      for (const auto& [name, tensor] : expected.tensors) {
        const auto same = [&sought = name](const auto& item) { return item.first == sought; };
        const auto found = std::find_if(saved.tensors.begin(), saved.tensors.end(), same);
        ASSERT_NE(found, saved.tensors.end()) << name;
        EXPECT_TRUE(found->second.equal(tensor)) << name;
      }
    }
  }
}

TEST(AveragedWeights, AreTheModelInCheckpointsAndEvaluation) {
  for (const Averaging kind : {Averaging::kScheduleFree, Averaging::kLawa}) {
    const TempDir folder, later;
    std::vector<Tensors> at_batches(11);
    Tensors in_evaluation;
    TrainerOptions options = AveragedRun(kind, {}, folder.path(), 10);
    const auto weights = [](const State& state) {
      Tensors result;
      for (const auto& item : state.model->named_parameters())
        result.emplace(item.key(), item.value().detach().clone());
      return result;
    };
    AddCallback(options, {Event::kBatchEnd},
                [&](State& state) { at_batches[static_cast<size_t>(state.timestamp.batch)] = weights(state); });
    AddCallback(options, {Event::kEvalBatchEnd}, [&](State& state) {
      if (state.timestamp.batch == 9) in_evaluation = weights(state);  // there is one at the end, too
    });
    const RunResult result = Train(std::move(options));
    ASSERT_TRUE(result.status.ok()) << result.status;
    const Tensors saved = NewestTensors(folder.path()), model = Below(saved, "model/");
    const std::string trained = kind == Averaging::kLawa ? "algorithms/LAWA/" : "algorithms/ScheduleFree/";
    for (const auto& [name, live] : AsMap(result)) EXPECT_TRUE(saved.at(trained + name).equal(live)) << name;
    EXPECT_FALSE(SameBits(model, AsMap(result)));
    EXPECT_FALSE(SameBits(in_evaluation, at_batches[9]));
    for (const auto& [name, average] : model) {
      if (kind == Averaging::kScheduleFree) continue;
      const at::Tensor mean = (at_batches[6].at(name) + at_batches[8].at(name) + at_batches[10].at(name)) / 3;
      EXPECT_TRUE(torch::allclose(average, mean, 1e-6, 1e-7)) << name;
      const at::Tensor then = (at_batches[4].at(name) + at_batches[6].at(name) + at_batches[8].at(name)) / 3;
      EXPECT_TRUE(torch::allclose(in_evaluation.at(name), then, 1e-6, 1e-7)) << name;
    }
    // Weights alone are the average, from which another run begins.
    TrainerOptions next = AveragedRun(kind, {}, "", 10);
    next.load.load_path = folder.path();
    next.load.load_weights_only = true;
    Tensors first;
    AddCallback(next, {Event::kFitStart}, [&](State& state) { first = weights(state); });
    ASSERT_TRUE(Train(std::move(next)).status.ok());
    EXPECT_TRUE(SameBits(first, model));
  }
}

TEST(ScheduleFreeAdamW, WithoutItsAlgorithmsStateTheAverageIsTheBeginning) {
  const TempDir folder;
  ASSERT_TRUE(TrainAveraged(Averaging::kScheduleFree, {}, folder.path(), 4).status.ok());
  TrainerOptions options = AveragedRun(Averaging::kScheduleFree, {}, "", 5);
  options.load.load_path = folder.path();
  options.load.load_exclude_algorithms = {"ScheduleFree"};
  std::vector<double> updates;
  AddCallback(options, {Event::kBatchEnd}, [&](State& state) {
    for (const auto& [name, tensor] : state.optimizer->state()) {
      if (name == "group0/step") updates.push_back(tensor[0].item<double>());
    }
  });
  ASSERT_TRUE(Train(std::move(options)).status.ok());
  EXPECT_EQ(updates, std::vector<double>{1});
}

TEST(ScheduleFreeAdamW, GoesWithSam) {
  TrainerOptions options = AveragedRun(Averaging::kScheduleFree, {}, "", 4);
  options.algorithms.push_back(std::make_unique<Sam>(SamOptions{}));
  EXPECT_TRUE(Train(std::move(options)).status.ok());
}

TEST(AveragedWeights, MistakesAreNamed) {
  TrainerOptions two = AveragedRun(Averaging::kLawa, {}, "", 2);
  AddEma(two, HalfLife(Time::Batches(5)));
  EXPECT_THAT(std::string(Train(std::move(two)).status.message()), HasSubstr("algorithms: LAWA and EMA each evaluate"));
  TrainerOptions free = AveragedRun(Averaging::kScheduleFree, {}, "", 2);
  free.algorithms.push_back(std::make_unique<Lawa>(kLatestThree));
  EXPECT_THAT(std::string(Train(std::move(free)).status.message()), HasSubstr("LAWA and ScheduleFree each"));
  const TempDir folder;
  ASSERT_TRUE(TrainAveraged(Averaging::kLawa, {}, folder.path(), 4).status.ok());
  TrainerOptions other = AveragedRun(Averaging::kLawa, {}, folder.path(), 6);
  other.algorithms[0] = std::make_unique<Lawa>(LawaOptions{.k = 4, .interval = Time::Batches(2)});
  EXPECT_THAT(std::string(Train(std::move(other)).status.message()), HasSubstr("lawa: k: 4, but the checkpoint has"));
  Lawa lawa(kLatestThree);
  EXPECT_THAT(std::string(lawa.PrepareLoad("[]").message()), HasSubstr("LAWA: its state is not as it was saved: []"));
  EXPECT_THAT(std::string(lawa.PrepareLoad("{\"k\":3,\"taken\":1}").message()), HasSubstr("before the end of INIT"));
  const auto refused = [](const LawaOptions& options) { return std::string(Validate(options).message()); };
  EXPECT_EQ(refused({.k = 0}), "k: 0, it must be from 1 to 1000");
  EXPECT_EQ(refused({.interval = Time::Samples(3)}),
            "interval: 3sp, it must be in batches (ba) or epochs (ep), more than 0");
  EXPECT_EQ(refused({.lawa_start = Time::Duration(1.5)}), "lawa_start: 1.5dur, it must be from 0dur to 1dur");
  const auto bad = [](const ScheduleFreeOptions& options) { return std::string(Validate(options).message()); };
  EXPECT_EQ(bad({.beta1 = 0}), "betas[0]: 0, must be between 0 and 1");
  EXPECT_EQ(bad({.beta2 = 1}), "betas[1]: 1, must be in [0, 1)");
  EXPECT_EQ(bad({.r = -1}), "r: -1, must be >= 0");
}

}  // namespace
}  // namespace composer
