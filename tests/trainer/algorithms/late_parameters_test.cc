// Tests parameters that are added, removed and replaced after the optimizer was made.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/linear.h>

#include <map>

#include "absl/strings/str_replace.h"
#include "tests/support/temp_dir.h"
#include "tests/trainer/algorithms/surgery_runs.h"
#include "tests/trainer/parallel/tensor_parallel_runs.h"
#include "trainer/layers/replace_layers.h"
#include "trainer/models/mlp.h"
#include "trainer/optim/take_state.h"

namespace composer {
namespace {

using testing::HasSubstr;

// Has one parameter more than the layer that it takes in.
class ScaledRows final : public torch::nn::Module, public Layer {
 public:
  explicit ScaledRows(std::shared_ptr<torch::nn::Module> inner) : inner_(*this, "inner", std::move(inner)) {}
  at::Tensor forward(const at::Tensor& x) override { return inner_->forward(x) * scale_; }

 private:
  at::Tensor scale_ = register_parameter("scale", torch::ones({1}));
  Slot<Layer> inner_;
};

void AddScale(Model& model) {
  ReplaceLayers(model, [](const std::string& name, const std::shared_ptr<torch::nn::Module>& module) {
    return name == "layers.1" ? std::make_shared<ScaledRows>(module) : nullptr;
  });
}

void RemoveBias(Model& model) {
  ReplaceLayers(model, [](const std::string& name, const std::shared_ptr<torch::nn::Module>& module) {
    if (name != "layers.1") return std::shared_ptr<torch::nn::Module>();
    const auto& old = *module->as<torch::nn::LinearImpl>();
    const auto linear = std::make_shared<LinearLayer>(
        torch::nn::LinearOptions(old.options.in_features(), old.options.out_features()).bias(false));
    linear->weight.set_data(old.weight.data());
    return std::shared_ptr<torch::nn::Module>(linear);
  });
}

struct LateMesh {
  int ranks;
  std::optional<ShardingStrategy> strategy;
};

using ChangeFn = std::function<void(Model&)>;

TrainerOptions LateRun(const LateMesh& mesh, const std::string& folder = "", int64_t batches = 10) {
  TrainerOptions options = SmallRun();
  options.model = MakeMlp({8, 16, 4});
  FillParameters(*options.model);
  if (mesh.strategy) options.fsdp.emplace().strategy = *mesh.strategy;
  options.max_duration = Time::Batches(batches);
  options.save.save_folder = folder;
  options.save.save_interval = Time::Batches(5);
  return options;
}

RunResult TrainLate(const LateMesh& mesh, Event event, const ChangeFn& change, const std::string& folder = "",
                    int64_t batches = 10) {
  return TrainOnRanks(mesh.ranks, [&](int) {
    TrainerOptions options = LateRun(mesh, folder, batches);
    AddCallback(options, {event}, [change, done = false](State& state) mutable {
      if (!std::exchange(done, true)) change(*state.model);
    });
    return options;
  })[0];
}

TEST(LateParameters, AreTrainedAsIfTheModelHadBeenMadeWithThemAndResumed) {
  for (const ChangeFn& change : {ChangeFn(AddScale), ChangeFn(RemoveBias)}) {
    for (const int ranks : {1, 2}) {
      const LateMesh mesh = {ranks, std::nullopt};
      const RunResult early = TrainOnRanks(ranks, [&](int) {
        TrainerOptions options = LateRun(mesh);
        options.algorithms.push_back(std::make_unique<ChangeBy>(change));
        return options;
      })[0];
      for (const Event event : {Event::kInit, Event::kBeforeLoad, Event::kAfterLoad})
        ExpectSameBits(TrainLate(mesh, event, change), early);
      const TempDir folder;
      ASSERT_TRUE(TrainLate(mesh, Event::kInit, change, folder.path(), 5).status.ok());
      RunResult resumed = TrainLate(mesh, Event::kInit, change, folder.path());
      EXPECT_FALSE(resumed.resumed_from.empty());
      resumed.losses.insert(resumed.losses.begin(), early.losses.begin(), early.losses.begin() + 5);
      ExpectSameBits(resumed, early);
    }
  }
}

TEST(LateParameters, WhatStaysKeepsItsLoadedState) {
  const TempDir folder;
  const LateMesh one = {1, std::nullopt};
  ASSERT_TRUE(Train(LateRun(one, folder.path(), 5)).status.ok());
  std::map<std::string, at::Tensor> saved;
  for (const auto& [name, tensor] : NewestCheckpoint(folder.path()).tensors) saved.emplace(name, tensor);
  TrainerOptions options = LateRun(one, folder.path());
  AddCallback(options, {Event::kAfterLoad}, [](State& state) { AddScale(*state.model); });
  const auto trainer = Trainer::Create(std::move(options)).value();
  int equal = 0, fresh = 0;
  for (const auto& [name, tensor] : trainer->state().optimizer->state()) {
    if (name == "group0/step") {
      std::vector<float> steps(tensor.data_ptr<float>(), tensor.data_ptr<float>() + tensor.numel());
      EXPECT_THAT(steps, testing::UnorderedElementsAre(5, 5, 0, 5, 5));
      continue;
    }
    const auto before = saved.find("optimizer/" + absl::StrReplaceAll(name, {{".inner.", "."}}));
    if (before == saved.end()) {
      EXPECT_TRUE(name.starts_with("layers.1.scale/")) << name;
      EXPECT_EQ(tensor.abs().sum().item<double>(), 0) << name;
      ++fresh;
    } else {
      EXPECT_TRUE(torch::equal(tensor, before->second.view_as(tensor))) << name;
      ++equal;
    }
  }
  EXPECT_EQ(equal, 8) << "both moments of each weight and bias";
  EXPECT_EQ(fresh, 2) << "both moments of the scale";
  EXPECT_TRUE(trainer->Fit().ok());
}

TEST(LateParameters, AreRefusedByNameWhereTheyWouldNotBeTrained) {
  for (const ShardingStrategy strategy : {kGradOp, kFull}) {
    const absl::Status sharded = TrainLate({2, strategy}, Event::kInit, AddScale).status;
    EXPECT_EQ(sharded.code(), absl::StatusCode::kInvalidArgument) << sharded;
    EXPECT_THAT(sharded.message(), HasSubstr("parameter layers.1.scale was added after the optimizer was made, when "
                                             "each rank had pieces of what was there"));
  }
  for (const int ranks : {1, 2}) {
    for (const Event event : {Event::kFitStart, Event::kEpochStart, Event::kBatchStart, Event::kEpochEnd}) {
      const absl::Status late = TrainLate({ranks, std::nullopt}, event, AddScale).status;
      EXPECT_EQ(late.code(), absl::StatusCode::kInvalidArgument) << late;
      EXPECT_THAT(late.message(), HasSubstr("parameter layers.1.scale was added after the optimizer was made, and "
                                            "after AFTER_LOAD, so it would not be trained"));
    }
  }
}

}  // namespace
}  // namespace composer
