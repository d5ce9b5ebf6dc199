// Tests that FSDP, activation checkpointing and precision choose layers in the same way, in whole runs of models that
// know nothing of blocks or whose blocks are not what is chosen. SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/temp_dir.h"
#include "tests/trainer/algorithms/surgery_runs.h"
#include "tests/trainer/parallel/tensor_parallel_runs.h"
#include "trainer/layers/layer_policy.h"
#include "trainer/models/mlp.h"

namespace composer {
namespace {

using testing::HasSubstr;

struct ChoiceMesh {
  const char* what;
  int ranks;
  std::optional<ShardingStrategy> strategy;
};
constexpr ChoiceMesh kChoiceMeshes[] = {
    {"1 rank", 1, std::nullopt}, {"2 ranks", 2, std::nullopt}, {"SHARD_GRAD_OP", 2, kGradOp}, {"FULL_SHARD", 2, kFull}};

using ChangeOptions = std::function<void(TrainerOptions&)>;

RunResult TrainChosen(const ChoiceMesh& mesh, const std::function<TrainerOptions()>& make,
                      const ChangeOptions& change = {}) {
  return TrainOnRanks(mesh.ranks, [&](int) {
    TrainerOptions options = make();
    if (mesh.strategy) {
      options.fsdp.emplace().strategy = *mesh.strategy;
      if (options.precision == Precision::kAmpBf16) options.fsdp->param_dtype = at::kBFloat16;
    }
    if (change) change(options);
    return options;
  })[0];
}

TrainerOptions PlainMlp(Precision precision = Precision::kFp32, const std::string& folder = "", int64_t batches = 10) {
  TrainerOptions options = SmallRun();
  options.model = nullptr;
  options.make_model = [] { return MakeMlp({8, 16, 16, 4}); };
  options.precision = precision;
  options.max_duration = Time::Batches(batches);
  options.save.save_folder = folder;
  options.save.save_interval = Time::Batches(5);
  return options;
}

TrainerOptions PlainGpt(Precision precision = Precision::kFp32) {
  static const auto& first = *new FirstWeights(true);  // of the first rank that asks
  TrainerOptions options = OptionsOf({.precision = precision}, first);
  options.evaluators.clear();
  return options;
}

TEST(ChosenLayers, AreFsdpsUnitsInAModelWithoutBlocks) {
  for (const ShardingStrategy strategy : {kGradOp, kFull}) {
    const ChoiceMesh mesh = {"", 2, strategy};
    const auto wrap = [](TrainerOptions& options) { options.fsdp->wrap.texts = {"Linear"}; };
    const RunResult whole = TrainChosen(mesh, [] { return PlainMlp(); });
    const RunResult units = TrainChosen(mesh, [] { return PlainMlp(); }, wrap);
    ASSERT_TRUE(units.status.ok()) << units.status;
    ExpectSameBits(units, whole);
    EXPECT_GT(units.collectives_per_step, whole.collectives_per_step) << "one unit before, three now";
    const TempDir folder;
    const auto part = [&](int64_t batches) {
      return TrainChosen(mesh, [&] { return PlainMlp(Precision::kFp32, folder.path(), batches); }, wrap);
    };
    ASSERT_TRUE(part(5).status.ok());
    RunResult resumed = part(10);
    EXPECT_FALSE(resumed.resumed_from.empty());
    resumed.losses.insert(resumed.losses.begin(), whole.losses.begin(), whole.losses.begin() + 5);
    ExpectSameBits(resumed, whole);
  }
}

TEST(ChosenLayers, RunAgainInBackwardWithTheSameBits) {
  for (const ChoiceMesh& mesh : kChoiceMeshes) {
    SCOPED_TRACE(mesh.what);
    for (const auto& [make, texts] : {std::pair<TrainerOptions (*)(), std::vector<std::string>>{
                                          [] { return PlainMlp(); }, {"layers.1", "layers.2"}},
                                      {[] { return PlainGpt(); }, {"Attention", "*.mlp"}},
                                      {[] { return PlainGpt(); }, {"GptBlock", "LayerNorm"}}}) {
      ExpectSameBits(TrainChosen(mesh, make,
                                 [&chosen = texts](TrainerOptions& options) {
                                   options.activations.checkpoint.layers.texts = chosen;
                                 }),
                     TrainChosen(mesh, make));
    }
  }
}

TEST(ChosenLayers, ComputeInFloat32WhateverThePrecision) {
  for (const ChoiceMesh& mesh : kChoiceMeshes) {
    SCOPED_TRACE(mesh.what);
    const auto keep = [](std::vector<std::string> texts) {
      return [texts](TrainerOptions& options) { options.keep_in_fp32.texts = texts; };
    };
    const auto low = [] { return PlainMlp(Precision::kAmpBf16); };
    const RunResult exact = TrainChosen(mesh, [] { return PlainMlp(); }), rounded = TrainChosen(mesh, low);
    EXPECT_NE(rounded.losses, exact.losses);
    ExpectSameBits(TrainChosen(mesh, low, keep({"Linear"})), exact);
    const RunResult some = TrainChosen(mesh, low, keep({"layers.2"}));
    ASSERT_TRUE(some.status.ok()) << some.status;
    EXPECT_NE(some.losses, exact.losses);
    EXPECT_NE(some.losses, rounded.losses);
    // In a unit with others, and again in backward.
    const auto gpt = [] { return PlainGpt(Precision::kAmpBf16); };
    const RunResult kept = TrainChosen(mesh, gpt, keep({"Attention"}));
    ASSERT_TRUE(kept.status.ok()) << kept.status;
    EXPECT_NE(kept.losses, TrainChosen(mesh, gpt).losses);
    ExpectSameBits(TrainChosen(mesh, gpt,
                               [&](TrainerOptions& options) {
                                 keep({"Attention"})(options);
                                 options.activations.checkpoint.every = 1;
                               }),
                   kept);
  }
}

TEST(ChosenLayers, MistakesEndTheRunAtStart) {
  const auto error = [](const ChangeOptions& change) {
    const absl::Status status = TrainChosen(kChoiceMeshes[3], [] { return PlainGpt(); }, change).status;
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    return std::string(status.message());
  };
  EXPECT_THAT(error([](TrainerOptions& options) { options.fsdp->wrap.texts = {"*.atn"}; }),
              HasSubstr("fsdp auto_wrap: `*.atn` chooses no layer of Gpt"));
  EXPECT_THAT(error([](TrainerOptions& options) { options.fsdp->wrap.texts = {"Embedding"}; }),
              HasSubstr("layer transformer.wte (composer::TorchLayer<torch::nn::EmbeddingImpl>) cannot be a unit: the "
                        "layer around it uses more of it than its forward"));
  EXPECT_THAT(error([](TrainerOptions& options) { options.keep_in_fp32.texts = {"transformer.wte"}; }),
              HasSubstr("keep_in_fp32: layer transformer.wte"));
  EXPECT_THAT(error([](TrainerOptions& options) { options.activations.checkpoint.layers.texts = {"Atention"}; }),
              HasSubstr("activation_checkpointing: `Atention` chooses no layer of Gpt (did you mean `Attention`?)"));
}

// Takes the place of a feed-forward, whose parameters it keeps beside its own.
class ScaledFeedForward final : public torch::nn::Module, public Layer {
 public:
  explicit ScaledFeedForward(std::shared_ptr<torch::nn::Module> inner) : inner_(*this, "inner", std::move(inner)) {}
  at::Tensor forward(const at::Tensor& x) override { return inner_->forward(x) * scale_; }

 private:
  at::Tensor scale_ = register_parameter("scale", torch::ones({16}));
  Slot<Layer> inner_;
};

class ScalesFeedForward final : public Surgery {
 public:
  std::string name() const override { return "ScalesFeedForward"; }
  absl::Status ChangeModel(Model& model, const ModelContext& context) override {
    ReplaceLayersOf(model, context, [](const std::string& name, const std::shared_ptr<torch::nn::Module>& module) {
      return name.ends_with(".mlp") && module->as<ScaledFeedForward>() == nullptr
                 ? std::make_shared<ScaledFeedForward>(module)
                 : nullptr;
    });
    return absl::OkStatus();
  }

 protected:
  std::vector<std::pair<std::string, size_t>> LayersOf(const Model& model) const override {
    return {{"scales/num_layers", FindLayers(model, LayersOfType<ScaledFeedForward>()).size()}};
  }
};

TEST(SurgeryOfGpt, NewPartsOfItsBlocksAreTrainedOnEveryMeshAndResumed) {
  const auto make = [](const std::string& folder, int64_t batches) {
    TrainerOptions options = PlainGpt();
    options.model = nullptr;
    options.make_model = [] { return MakeGpt(SmallGpt(true)); };
    options.split_model = nullptr;
    options.algorithms.push_back(std::make_unique<ScalesFeedForward>());
    options.max_duration = Time::Batches(batches);
    options.save.save_folder = folder;
    return options;
  };
  const RunResult one = TrainChosen(kChoiceMeshes[0], [&] { return make("", 10); });
  for (const ChoiceMesh& mesh : kChoiceMeshes) {
    SCOPED_TRACE(mesh.what);
    const TempDir folder;
    RunResult whole = TrainChosen(mesh, [&] { return make("", 10); });
    ASSERT_TRUE(whole.status.ok()) << whole.status;
    EXPECT_LT(LargestDifference(whole, one), 1e-4);
    bool moved = false;
    for (const auto& [name, tensor] : whole.tensors) {
      if (name == "transformer.blocks.0.mlp.scale") moved = !torch::equal(tensor, torch::ones({16}));
    }
    EXPECT_TRUE(moved);
    ASSERT_TRUE(TrainChosen(mesh, [&] { return make(folder.path(), 5); }).status.ok());
    RunResult resumed = TrainChosen(mesh, [&] { return make(folder.path(), 10); });
    EXPECT_FALSE(resumed.resumed_from.empty());
    resumed.losses.insert(resumed.losses.begin(), whole.losses.begin(), whole.losses.begin() + 5);
    ExpectSameBits(resumed, whole);
  }
}

// What the run has for an algorithm goes before what the algorithm itself would do, and is counted.
TEST(LayerPolicies, AreAskedByTheAlgorithmTheyNameAlone) {
  const auto names = [](const std::string& algorithm) {
    const RunResult result = TrainChosen(kChoiceMeshes[1], [&] {
      TrainerOptions options = PlainGpt();
      options.model = nullptr;
      options.make_model = [] { return MakeGpt(SmallGpt(true)); };
      options.split_model = nullptr;
      options.algorithms.push_back(SmallBlur());
      options.layer_policies = {MakeLayerPolicy<LayerNormLayer, ScaledFeedForward>(
          algorithm, "norm", [](const std::string&, const std::shared_ptr<LayerNormLayer>& norm) {
            return std::make_shared<ScaledFeedForward>(norm);
          })};
      return options;
    });
    EXPECT_TRUE(result.status.ok()) << result.status;
    std::vector<std::string> found;
    for (const auto& [name, tensor] : result.tensors) found.push_back(name);
    return found;
  };
  EXPECT_THAT(names("BlurPool"), testing::Contains("transformer.ln_f.inner.weight"));
  EXPECT_THAT(names("SqueezeExcite"), testing::Not(testing::Contains("transformer.ln_f.inner.weight")));
}

}  // namespace
}  // namespace composer
