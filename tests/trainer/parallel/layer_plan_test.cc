// Tests tensor parallelism by a plan of layers: models that know nothing of it train as on one rank, also after
// surgery; what a plan cannot split is refused at start. SPDX-License-Identifier: Apache-2.0
#include "trainer/parallel/tensor/layer_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/container/sequential.h>

#include "tests/support/temp_dir.h"
#include "tests/trainer/parallel/fsdp_runs.h"
#include "tests/trainer/parallel/tensor_parallel_runs.h"
#include "trainer/algorithms/surgery/low_precision_layer_norm.h"
#include "trainer/collectives/dry_run_communicator.h"
#include "trainer/layers/attention_core.h"
#include "trainer/layers/replace_layers.h"
#include "trainer/layers/slot.h"
#include "trainer/layers/torch_layers.h"
#include "trainer/models/mlp.h"

namespace composer {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr ParallelStyle kCol = ParallelStyle::kColwise, kRow = ParallelStyle::kRowwise,
                        kGather = ParallelStyle::kGatherColwise;
const LayerPlan& GptPlan() {
  static const auto& plan =
      *new LayerPlan{{"*.attn.qkv", kCol}, {"*.attn.proj", kRow}, {"*.mlp.fc", kCol}, {"*.mlp.proj", kRow}};
  return plan;
}

struct PlanMesh {
  const char* what;
  int ranks;
  int tensor;
  std::optional<ShardingStrategy> strategy;
};
constexpr PlanMesh kPlanMeshes[] = {{"tensor alone", 2, 2, std::nullopt},
                                    {"four parts", 4, 4, std::nullopt},
                                    {"DDP", 4, 2, std::nullopt},
                                    {"SHARD_GRAD_OP", 4, 2, kGradOp},
                                    {"FULL_SHARD", 4, 2, kFull}};

using MakeRun = std::function<TrainerOptions()>;

std::vector<RunResult> TrainByPlan(const PlanMesh& mesh, const LayerPlan& plan, const MakeRun& make) {
  return TrainOnRanks(mesh.ranks, [&](int) {
    TrainerOptions options = make();
    options.tensor_parallel_degree = mesh.tensor;
    if (mesh.tensor > 1) options.layer_plan = plan;
    if (mesh.strategy) options.fsdp.emplace().strategy = *mesh.strategy;
    return options;
  });
}

constexpr PlanMesh kOneRank = {"one rank", 1, 1, std::nullopt};

void ExpectFollows(const std::vector<RunResult>& results, const RunResult& one, double tolerance = 1e-5) {
  for (const RunResult& result : results) {
    ASSERT_TRUE(result.status.ok()) << result.status;
    ASSERT_EQ(result.losses.size(), one.losses.size());
    for (size_t i = 0; i < one.losses.size(); ++i) EXPECT_NEAR(result.losses[i] / one.losses[i], 1, tolerance) << i;
    EXPECT_LE(RelativeError(result, one), tolerance);
  }
}

TrainerOptions MlpRun(bool deferred = true) {
  TrainerOptions options = SmallRun();
  options.model = nullptr;
  const auto make = [] { return MakeMlp({8, 16, 12, 4}); };
  options.make_model = make;
  if (!deferred) {
    options.make_model = nullptr;
    options.model = make();
    FillParameters(*options.model);
  }
  return options;
}

const LayerPlan& MlpPlan() {
  static const auto& plan = *new LayerPlan{{"layers.0", kCol}, {"layers.1", kRow}, {"layers.2", kGather}};
  return plan;
}

TEST(LayerPlanRun, AnMlpTrainsAsOnOneRank) {
  for (const bool deferred : {true, false}) {
    const MakeRun make = [&] { return MlpRun(deferred); };
    const RunResult one = TrainByPlan(kOneRank, {}, make)[0];
    for (const PlanMesh& mesh : kPlanMeshes) {
      SCOPED_TRACE(testing::Message() << mesh.what << (deferred ? ", recorded" : ""));
      ExpectFollows(TrainByPlan(mesh, MlpPlan(), make), one);
    }
  }
}

TrainerOptions PlannedGpt(const std::string& folder = "", int64_t batches = 10, bool tied_head = true) {
  static const auto& first = *new FirstWeights(true);
  TrainerOptions options = OptionsOf({.batches = batches, .folder = folder}, first);
  options.model = nullptr;
  options.make_model = [tied_head] { return MakeGpt(SmallGpt(tied_head)); };
  options.split_model = nullptr;
  options.evaluators.clear();
  return options;
}

TEST(LayerPlanRun, AGptTrainsAsOnOneRankAndGoesOnWithAnotherDegree) {
  const MakeRun make = [] { return PlannedGpt(); };
  const RunResult one = TrainByPlan(kOneRank, {}, make)[0];
  for (const PlanMesh& mesh : kPlanMeshes) {
    SCOPED_TRACE(mesh.what);
    ExpectFollows(TrainByPlan(mesh, GptPlan(), make), one);
    const TempDir same, other;
    for (const TempDir* folder : {&same, &other}) {
      ASSERT_TRUE(TrainByPlan(mesh, GptPlan(), [&] { return PlannedGpt(folder->path(), 5); })[0].status.ok());
    }
    const auto rest = [&](const PlanMesh& then, const TempDir& folder) {
      RunResult result = TrainByPlan(then, GptPlan(), [&] { return PlannedGpt(folder.path()); })[0];
      EXPECT_FALSE(result.resumed_from.empty());
      result.losses.insert(result.losses.begin(), one.losses.begin(), one.losses.begin() + 5);
      return result;
    };
    ExpectFollows({rest(mesh, same), rest(kOneRank, other)}, one);
  }
}

// The embedding stays whole; the head is split by tokens and gathered. The vocabulary of 13 does not split, 14 would.
TEST(LayerPlanRun, SurgeryThatAPlanCanSplitWorks) {
  const auto make = [](Precision precision) {
    return [precision] {
      TrainerOptions options = PlannedGpt();
      options.precision = precision;
      options.algorithms.push_back(std::make_unique<LowPrecisionLayerNorm>());
      return options;
    };
  };
  const RunResult one = TrainByPlan(kOneRank, {}, make(Precision::kAmpBf16))[0];
  for (const PlanMesh& mesh : kPlanMeshes) {
    SCOPED_TRACE(mesh.what);
    ExpectFollows(TrainByPlan(mesh, GptPlan(), make(Precision::kAmpBf16)), one, 0.03);
  }
}

// Replaces each feed-forward's first layer by a product of two.
class TwoProducts final : public torch::nn::Module, public Layer {
 public:
  TwoProducts(int64_t in, int64_t out)
      : up_(*this, "up", std::make_shared<LinearLayer>(in, out)),
        gate_(*this, "gate", std::make_shared<LinearLayer>(in, out)) {}
  at::Tensor forward(const at::Tensor& x) override { return up_->forward(x) * gate_->forward(x).sigmoid(); }

 private:
  Slot<Layer> up_, gate_;
};

class Gating final : public Algorithm {
 public:
  std::string name() const override { return "Gating"; }
  EventSet events() const override { return {}; }
  bool Match(Event /*event*/, const State& /*state*/) const override { return false; }
  absl::Status Apply(Event /*event*/, State& /*state*/, Logger& /*logger*/) override { return absl::OkStatus(); }
  absl::Status ChangeModel(Model& model, const ModelContext& /*context*/) override {
    ReplaceLayers(model, [](const std::string& name, const std::shared_ptr<torch::nn::Module>&) {
      return name.ends_with(".mlp.fc") ? std::make_shared<TwoProducts>(16, 64) : nullptr;
    });
    return absl::OkStatus();
  }
};

TrainerOptions GatedRun() {
  TrainerOptions options = PlannedGpt();
  options.algorithms.push_back(std::make_unique<Gating>());
  return options;
}

TEST(LayerPlanRun, SurgeryWithNewLayersIsSplitByNameOrRefused) {
  const RunResult one = TrainByPlan(kOneRank, {}, GatedRun)[0];
  LayerPlan plan = GptPlan();
  plan[2].layers = "*.mlp.fc.*";
  for (const PlanMesh& mesh : kPlanMeshes) {
    SCOPED_TRACE(mesh.what);
    ExpectFollows(TrainByPlan(mesh, plan, GatedRun), one);
  }
  const absl::Status refused = TrainByPlan(kPlanMeshes[0], GptPlan(), GatedRun)[0].status;
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument) << refused;
  EXPECT_THAT(refused.message(), HasSubstr("tp.layer_plan, `*.mlp.fc: ColwiseParallel`: layer "
                                           "transformer.blocks.0.mlp.fc is a composer::(anonymous"));
  LayerPlan half = GptPlan();
  half[2].layers = "*.mlp.fc.up";
  EXPECT_THAT(TrainByPlan(kPlanMeshes[0], half, GatedRun)[0].status.message(),
              HasSubstr("layer transformer.blocks.0.mlp.fc.gate would get a part of the 64 features of "
                        "transformer.blocks.0.mlp.fc.up"));
}

// Scales the heads by their numbers.
class HeadsByNumber final : public torch::nn::Module, public AttentionCore {
 public:
  at::Tensor forward(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                     const std::optional<at::Tensor>& mask, bool is_causal) override {
    return at::scaled_dot_product_attention(q, k, v, mask, 0, is_causal) * torch::arange(q.size(1)).view({-1, 1, 1});
  }
};

TEST(LayerPlan, AttentionThatTellsHeadsApartIsNotSplit) {
  DryRunCommunicator group(2, at::kCPU);
  const auto gpt = MakeGpt(SmallGpt(true));
  ReplaceLayers(*gpt, [](const std::string& name, const std::shared_ptr<torch::nn::Module>&) {
    return name.ends_with(".core") ? std::make_shared<HeadsByNumber>() : nullptr;
  });
  const LayerPlan mlp = {{"*.mlp.fc", kCol}, {"*.mlp.proj", kRow}};
  SplitByPlan(*gpt, mlp, group);
  const auto whole = MakeGpt(SmallGpt(true));
  ReplaceLayers(*whole, [](const std::string& name, const std::shared_ptr<torch::nn::Module>&) {
    return name == "transformer.blocks.1.attn.core" ? std::make_shared<HeadsByNumber>() : nullptr;
  });
  try {
    SplitByPlan(*whole, GptPlan(), group);
    ADD_FAILURE() << "heads were split";
  } catch (const c10::ValueError& error) {
    EXPECT_THAT(std::string(error.what_without_backtrace()),
                HasSubstr("tp.layer_plan, `*.attn.proj: RowwiseParallel`: layer transformer.blocks.1.attn.core is a "));
  }
}

TEST(LayerPlan, WhatItCannotSplitIsNamed) {
  DryRunCommunicator three(3, at::kCPU), two(2, at::kCPU);
  const auto error = [](const LayerPlan& plan, Communicator& group, torch::nn::Module& model) {
    try {
      SplitByPlan(model, plan, group);
    } catch (const c10::ValueError& failure) {
      return std::string(failure.what_without_backtrace());
    }
    return std::string("none");
  };
  const auto mlp_error = [&](const LayerPlan& plan, Communicator& group) {
    return error(plan, group, *MakeMlp({8, 16, 12, 4}));
  };
  EXPECT_THAT(mlp_error({{"layer.0", kCol}}, two), HasSubstr("`layer.0` chooses no layer of Mlp (did you mean"));
  EXPECT_THAT(mlp_error({{"activation", kCol}}, two), HasSubstr("and a plan splits Linear layers only"));
  EXPECT_THAT(mlp_error({{"layers.0", kCol}, {"layers.1", kRow}}, three),
              HasSubstr("the 16 output features of layer layers.0 do not split over tensor_parallel_degree 3"));
  EXPECT_THAT(mlp_error({{"layers.*", kCol}, {"layers.1", kRow}}, two),
              HasSubstr("layer layers.1 is also chosen by `layers.*`"));
  EXPECT_THAT(mlp_error({{"layers.0", kCol}}, two),
              HasSubstr("layer layers.1 would get a part of the 16 features of layers.0"));
  EXPECT_THAT(mlp_error({{"layers.2", kCol}}, two), HasSubstr("the 4 features of layers.2 stay apart"));
  EXPECT_THAT(mlp_error({{"layers.0", kCol}, {"layers.1", kRow}, {"layers.2", ParallelStyle::kSequence}}, two),
              HasSubstr("`layers.2: SequenceParallel`: layer layers.2 is not given some of the heads"));
  EXPECT_THAT(mlp_error({{"layers.1", kRow}}, two), HasSubstr("but the layers before it give whole ones"));
  EXPECT_THAT(mlp_error({{"layers.0", kCol}, {"layers.2", kRow}}, two), HasSubstr("layers.1 would get a part"));
  const auto gpt_error = [&](const LayerPlan& plan, Communicator& group) {
    return error(plan, group, *MakeGpt({.layers = 1, .heads = 3, .width = 12, .context = 4, .vocab = 5}));
  };
  EXPECT_THAT(gpt_error(GptPlan(), two), HasSubstr("the 3 heads of layer transformer.blocks.0.attn.qkv do not split"));
  EXPECT_THAT(gpt_error({{"*.attn", kCol}}, two), HasSubstr("transformer.blocks.0.attn is a composer::(anonymous"));
  EXPECT_EQ(gpt_error(GptPlan(), three), "none");
  torch::nn::Sequential plain(torch::nn::Linear(4, 4));
  EXPECT_THAT(error({{"0", kGather}}, two, *plain), HasSubstr("its model does not hold it in a Slot"));
}

TEST(LayerPlan, PartsHaveTheirRowsAndColumns) {
  DryRunCommunicator group(2, at::kCPU);
  const auto gpt = MakeGpt(SmallGpt(false));
  const at::Tensor qkv = gpt->named_parameters()["transformer.blocks.0.attn.qkv.weight"].clone();
  const at::Tensor proj = gpt->named_parameters()["transformer.blocks.0.mlp.proj.weight"].clone();
  SplitByPlan(*gpt, GptPlan(), group);
  const auto params = gpt->named_parameters();
  const at::Tensor mine = qkv.view({3, 2, 8, 16}).select(1, group.rank()).reshape({24, 16});
  EXPECT_TRUE(torch::equal(params["transformer.blocks.0.attn.qkv.weight"], mine));
  EXPECT_TRUE(torch::equal(params["transformer.blocks.0.mlp.proj.weight"],
                           proj.slice(1, 32 * group.rank(), 32 * group.rank() + 32)));
  EXPECT_THAT(params["transformer.blocks.0.mlp.proj.bias"].sizes(), ElementsAre(16));
}

}  // namespace
}  // namespace composer
