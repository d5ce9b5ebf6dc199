// The conditional U-Net computes what diffusers' computes with the same file, has its names, and samples its pictures.
// SPDX-License-Identifier: Apache-2.0
#include "trainer/models/vision/conditional_unet.h"

#include <ATen/Parallel.h>
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "tests/trainer/loop/small_run.h"
#include "tests/trainer/models/diffusion/diffusion_golden.h"
#include "tests/trainer/parallel/fsdp_runs.h"
#include "trainer/core/dataset.h"
#include "trainer/init/construct_model.h"
#include "trainer/models/vision/diffusion_sampling.h"

namespace composer {
namespace {

using testing::HasSubstr;

struct UNetCase {
  const char* name;
  ConditionalUNetOptions options;
  std::vector<int64_t> pictures;
};

const UNetCase kUNetCases[] = {
    {"text",
     {.block_out_channels = {8, 16, 16},
      .down_block_types = {"CrossAttnDownBlock2D", "CrossAttnDownBlock2D", "DownBlock2D"},
      .up_block_types = {"UpBlock2D", "CrossAttnUpBlock2D", "CrossAttnUpBlock2D"},
      .attention_head_dim = {2, 4, 4},
      .cross_attention_dim = 12,
      .use_linear_projection = true,
      .norm_num_groups = 4},
     {3, 4, 10, 13}},
    {"conv",
     {.in_channels = 3,
      .out_channels = 3,
      .block_out_channels = {8, 12},
      .down_block_types = {"DownBlock2D", "CrossAttnDownBlock2D"},
      .up_block_types = {"CrossAttnUpBlock2D", "UpBlock2D"},
      .layers_per_block = 1,
      .transformer_layers_per_block = 2,
      .attention_head_dim = {2},
      .cross_attention_dim = 6,
      .num_class_embeds = 4,
      .norm_num_groups = 4,
      .flip_sin_to_cos = false,
      .freq_shift = 1},
     {3, 3, 8, 8}},
    {"classes",
     {.in_channels = 3,
      .out_channels = 3,
      .block_out_channels = {8, 16},
      .down_block_types = {"DownBlock2D", "DownBlock2D"},
      .up_block_types = {"UpBlock2D", "UpBlock2D"},
      .mid_block_type = "UNetMidBlock2D",
      .layers_per_block = 1,
      .num_class_embeds = 4,
      .norm_num_groups = 4},
     {3, 3, 8, 8}},
};

// The golden's batch.
Batch BatchOf(const UNetCase& of) {
  Batch batch;
  batch.num_samples = 3;
  batch.inputs = Filled(of.pictures, 7919);
  batch.extra["noise"] = Filled(of.pictures, 31);
  batch.extra["timesteps"] = torch::tensor({0, 517, 999}, torch::kLong);
  batch.extra["encoder_hidden_states"] = Filled({3, 5, of.options.cross_attention_dim}, 613);
  batch.targets = torch::arange(3, torch::kLong);
  return batch;
}

std::shared_ptr<DiffusionModel> LoadUNet(const UNetCase& of) {
  const auto model = MakeConditionalUNet(of.options);
  const torch::NoGradGuard no_grad;
  const GoldenTensors file = ReadDiffusionGolden(absl::StrCat(of.name, "/diffusion_pytorch_model.safetensors"));
  EXPECT_EQ(model->named_parameters().size(), file.size());
  for (const auto& item : model->named_parameters()) {
    const auto found = file.find(item.key());
    if (found == file.end() || found->second.sizes() != item.value().sizes()) {
      ADD_FAILURE() << of.name << " lacks " << item.key() << " " << item.value().sizes();
      continue;
    }
    at::Tensor(item.value()).copy_(found->second);
  }
  return model;
}

class ConditionalUNetOf : public testing::TestWithParam<UNetCase> {};

TEST_P(ConditionalUNetOf, HasDiffusersOutputsLossAndGradients) {
  at::set_num_threads(1);
  GoldenTensors golden = ReadDiffusionGolden(absl::StrCat(GetParam().name, "/golden.safetensors"));
  const auto model = LoadUNet(GetParam());
  const Batch batch = BatchOf(GetParam());
  const Outputs outputs = model->forward(batch);
  EXPECT_LE(RelativeDistance(outputs["outputs"], golden["computed"]), 1e-5);
  const at::Tensor loss = model->loss(outputs, batch).total;
  EXPECT_LE(RelativeDistance(loss, golden["loss"]), 1e-5);
  EXPECT_LE(RelativeDistance(model->sample_losses(outputs, batch).mean(), golden["loss"]), 1e-5);
  loss.backward();
  ExpectGoldenGradients(*model, golden);
}

// The first step's division by 0.04 and guidance by 3 make a hundred times as much of the passes' rounding.
TEST_P(ConditionalUNetOf, SamplesDiffusersPicture) {
  at::set_num_threads(1);
  GoldenTensors golden = ReadDiffusionGolden(absl::StrCat(GetParam().name, "/golden.safetensors"));
  const auto model = LoadUNet(GetParam());
  model->eval();
  const Batch first = BatchOf(GetParam()).Slice(0, 1);
  const at::Tensor sampled = SamplePictures(*model, first.extra.at("noise"), model->ConditionOf(first),
                                            {.num_inference_steps = 5, .guidance_scale = 3});
  EXPECT_LE(RelativeDistance(sampled, golden["sampled"]), 2e-4);
  // Noise on the way is a function of the seed.
  const auto noisy = [&](DiffusionSampler sampler, uint64_t seed) {
    return SamplePictures(*model, first.extra.at("noise"), model->ConditionOf(first),
                          {.sampler = sampler, .num_inference_steps = 3, .eta = 0.5, .seed = seed});
  };
  for (const DiffusionSampler sampler : {DiffusionSampler::kDdim, DiffusionSampler::kDdpm}) {
    EXPECT_TRUE(noisy(sampler, 1).equal(noisy(sampler, 1)));
    EXPECT_FALSE(noisy(sampler, 1).equal(noisy(sampler, 2)));
  }
}

// A model of the same seed is the same one when its construction is deferred.
TEST_P(ConditionalUNetOf, CanBeDeferred) {
  const auto make = [] { return MakeConditionalUNet(GetParam().options); };
  const ConstructedModel made = ConstructModel(make, 5);
  ASSERT_NE(made.init, nullptr) << made.whole_because;
  const auto params = make()->named_parameters();
  for (const auto& item : made.model->named_parameters()) {
    EXPECT_TRUE(item.value().is_meta()) << item.key();
    EXPECT_EQ(made.init->Values(item.value()).sizes(), params[item.key()].sizes()) << item.key();
  }
}

// Steps and noise are in the data: ranks that are threads share torch's generator.
TEST_P(ConditionalUNetOf, FullShardTrainsAsWholeModels) {
  const auto run = [](bool sharded) {
    TrainerOptions options = SmallRun();
    options.model = nullptr;
    options.make_model = [] { return LoadUNet(GetParam()); };
    options.train.dataset = std::make_shared<RepeatedSamples>(BatchOf(GetParam()));
    options.train.global_train_batch_size = 8;
    options.make_optimizer = [](Model& model) { return MakeTestAdamW(model, 1e-3); };
    options.max_duration = Time::Batches(3);
    if (sharded) options.fsdp.emplace().strategy = ShardingStrategy::kFullShard;
    return options;
  };
  const auto whole = TrainOnRanks(2, [&](int) { return run(false); });
  ASSERT_TRUE(whole[0].status.ok()) << whole[0].status;
  EXPECT_NE(whole[0].losses.back(), whole[0].losses.front());
  const auto sharded = TrainOnRanks(2, [&](int) { return run(true); });
  for (size_t rank = 0; rank < 2; ++rank) {
    const RunResult &a = sharded[rank], &b = whole[rank];
    ASSERT_TRUE(a.status.ok()) << a.status;
    ASSERT_EQ(a.losses.size(), b.losses.size());
    for (size_t i = 0; i < a.losses.size(); ++i) EXPECT_NEAR(a.losses[i] / b.losses[i], 1, 1e-5) << i;
    EXPECT_LE(RelativeError(a, b), 5e-4);
  }
}

INSTANTIATE_TEST_SUITE_P(UNet, ConditionalUNetOf, testing::ValuesIn(kUNetCases),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(StableDiffusion, HasDiffusersNamesAndOperations) {
  const auto golden = nlohmann::json::parse(*ReadFile("tests/golden/diffusion/names.json"));
  ConditionalUNetOptions first, second;
  first.cross_attention_dim = 768;
  second.cross_attention_dim = 1024;
  second.attention_head_dim = {5, 10, 20, 20};
  second.use_linear_projection = true;
  for (const auto& [name, options] : {std::pair("sd1", first), std::pair("sd2", second)}) {
    const ConstructedModel made = ConstructModel([&] { return MakeConditionalUNet(options); }, 1);
    ASSERT_NE(made.init, nullptr) << made.whole_because;
    EXPECT_EQ(NamesDigest(*made.model), golden[name].get<std::string>()) << name;
    EXPECT_EQ(ParametersOf(*made.model), golden[absl::StrCat(name, "_parameters")].get<int64_t>()) << name;
    const double operations = golden[absl::StrCat(name, "_operations")].get<double>();
    EXPECT_NEAR(made.model->flops_per_sample() / 3 / operations, 1, 1e-4) << name;
  }
}

const UNetCase& TextCase() { return kUNetCases[0]; }
const UNetCase& ClassesCase() { return kUNetCases[2]; }

// An evaluation gives each sample the same step and noise, in whichever batch it is; training does not.
TEST(DiffusionModel, IsEvaluatedWithTheSameNoise) {
  const auto model = LoadUNet(ClassesCase());
  Batch batch = BatchOf(ClassesCase());
  batch.extra.clear();
  batch.sample_ids = {7, 8, 9};
  const torch::NoGradGuard no_grad;
  EXPECT_FALSE(model->forward(batch)["target"].equal(model->forward(batch)["target"]));
  model->eval();
  const Outputs whole = model->forward(batch), last = model->forward(batch.Slice(2, 3));
  EXPECT_TRUE(whole["target"].slice(0, 2, 3).equal(last["target"]));
  EXPECT_TRUE(whole["timesteps"].slice(0, 2, 3).equal(last["timesteps"]));
  EXPECT_FALSE(whole["target"][0].equal(whole["target"][1]));
  const MetricList metrics = model->metrics(/*is_train=*/false);
  metrics[0]->Update(whole, batch);
  EXPECT_EQ(metrics[0]->name(), "MeanSquaredError");
  EXPECT_NEAR(metrics[0]->Compute(), model->loss(whole, batch).total.item<double>(), 1e-6);
}

TEST(DiffusionModel, LeavesOutConditions) {
  const auto text = LoadUNet(TextCase()), classes = LoadUNet(ClassesCase());
  const at::Tensor second = torch::tensor({false, true, false});
  const Batch batch = BatchOf(TextCase());
  const DiffusionCondition without = text->WithoutCondition(text->ConditionOf(batch), second);
  EXPECT_EQ(without.text[1].abs().sum().item<double>(), 0);
  EXPECT_TRUE(without.text[0].equal(batch.extra.at("encoder_hidden_states")[0]));
  const DiffusionCondition none = classes->WithoutCondition(classes->ConditionOf(BatchOf(ClassesCase())), second);
  EXPECT_TRUE(none.labels.equal(torch::tensor({0, 3, 2}, torch::kLong)));
}

// What stands for no text is what guidance leads away from: nowhere from the text itself.
TEST(DiffusionModel, IsGuidedAwayFromTheNegativeText) {
  at::set_num_threads(1);
  const auto model = LoadUNet(TextCase());
  model->eval();
  const Batch batch = BatchOf(TextCase());
  const auto sampled = [&](const at::Tensor& no_text, double guidance) {
    DiffusionCondition condition = model->ConditionOf(batch);
    condition.no_text = no_text;
    return SamplePictures(*model, batch.extra.at("noise"), model->CheckedCondition(condition, 3),
                          {.num_inference_steps = 2, .guidance_scale = guidance});
  };
  const at::Tensor text = batch.extra.at("encoder_hidden_states");
  EXPECT_LE(RelativeDistance(sampled(text, 3), sampled({}, 1)), 2e-4);
  EXPECT_LE(RelativeDistance(sampled(torch::zeros({1, 5, 12}), 3), sampled({}, 3)), 2e-4);
  EXPECT_GT(RelativeDistance(sampled(text.slice(0, 0, 1), 3), sampled({}, 3)), 1e-3);
  EXPECT_THAT(ValueErrorOf([&] { sampled(torch::zeros({2, 5, 12}), 3); }), HasSubstr("negative_encoder_hidden_states"));
}

TEST(DiffusionErrors, NameTheOption) {
  const auto error = [](const std::function<void(ConditionalUNetOptions&)>& change) {
    ConditionalUNetOptions options = TextCase().options;
    change(options);
    return ValueErrorOf([&] { MakeConditionalUNet(options); });
  };
  EXPECT_EQ(error([](auto&) {}), "none");
  EXPECT_THAT(error([](auto& o) { o.out_channels = 8; }), HasSubstr("model.out_channels: 8 must be equal"));
  EXPECT_THAT(error([](auto& o) { o.down_block_types.pop_back(); }), HasSubstr("model.down_block_types: 2 of them"));
  EXPECT_THAT(error([](auto& o) { o.up_block_types[0] = "AttnUpBlock2D"; }),
              HasSubstr("model.up_block_types: `AttnUpBlock2D`; there are CrossAttnUpBlock2D and UpBlock2D"));
  EXPECT_THAT(error([](auto& o) { o.attention_head_dim = {1, 2}; }), HasSubstr("model.attention_head_dim: 2 of them"));
  EXPECT_THAT(error([](auto& o) { o.attention_head_dim = {3}; }), HasSubstr("3 heads do not divide 8 channels"));
  EXPECT_THAT(error([](auto& o) { o.norm_num_groups = 3; }), HasSubstr("model.norm_num_groups: 3 does not divide"));
  EXPECT_THAT(error([](auto& o) { o.block_out_channels[0] = 7; }), HasSubstr("must be even"));
  EXPECT_THAT(error([](auto& o) { o.diffusion.scaling_factor = 0; }), HasSubstr("model.scaling_factor: 0"));
  EXPECT_THAT(error([](auto& o) { o.diffusion.conditioning_dropout = 1; }), HasSubstr("model.conditioning_dropout: 1"));
}

TEST(DiffusionErrors, NameTheData) {
  const auto error = [](const UNetCase& of, const std::function<void(Batch&)>& change) {
    const auto model = LoadUNet(of);
    Batch batch = BatchOf(of);
    change(batch);
    return ValueErrorOf([&] { model->forward(batch); });
  };
  const UNetCase &text = TextCase(), &classes = ClassesCase();
  EXPECT_EQ(error(text, [](auto&) {}), "none");
  EXPECT_THAT(error(text, [](auto& b) { b.extra.erase("encoder_hidden_states"); }),
              HasSubstr("encoder_hidden_states [B, T, 12]"));
  EXPECT_THAT(error(text, [](auto& b) { b.extra["encoder_hidden_states"] = torch::zeros({3, 5, 8}); }),
              HasSubstr("model.cross_attention_dim"));
  EXPECT_THAT(error(text, [](auto& b) { b.inputs = b.inputs.to(torch::kUInt8); }), HasSubstr("to_float"));
  EXPECT_THAT(error(text, [](auto& b) { b.extra["noise"] = torch::zeros({3, 4, 2, 2}); }), HasSubstr("noise: "));
  EXPECT_THAT(error(classes, [](auto& b) { b.targets = torch::full({3}, 4, torch::kLong); }),
              HasSubstr("model.num_class_embeds: it has 4 classes, which the data's labels up to 4"));
  EXPECT_THAT(error(classes, [](auto& b) { b.targets = at::Tensor(); }), HasSubstr("class_labels or targets"));
  EXPECT_THAT(error(classes,
                    [](auto& b) {
                      b.inputs = torch::zeros({3, 1, 8, 8});
                      b.extra.erase("noise");
                    }),
              HasSubstr("model.in_channels"));
}

}  // namespace
}  // namespace composer
