// A folder of diffusers as a job's model: latents, texts, loss, gradients and pictures are diffusers', and what is
// frozen stays as it is, on one rank and in pieces on several.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/Parallel.h>
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "base/file.h"
#include "data/tokenizers/files/tokenizer_files.h"
#include "tests/trainer/loop/small_run.h"
#include "tests/trainer/models/diffusion/diffusion_golden.h"
#include "tests/trainer/parallel/fsdp_runs.h"
#include "trainer/core/dataset.h"
#include "trainer/core/torch_status.h"
#include "trainer/init/construct_model.h"
#include "trainer/models/hf/hf_diffusion.h"
#include "trainer/models/vision/diffusion_sampling.h"

namespace composer {
namespace {

using testing::HasSubstr;

constexpr char kPipeline[] = "tests/golden/diffusion/pipeline";

std::shared_ptr<DiffusionModel> LoadPipeline(StableDiffusionOptions options = {}) {
  options.path = kPipeline;
  return LoadStableDiffusion(options);
}

Batch CaptionedPictures(GoldenTensors& golden) {
  Batch batch;
  batch.num_samples = 2;
  batch.inputs = Filled({2, 3, 16, 16}, 7919);
  batch.extra["input_ids"] = golden["tokens"].to(torch::kLong);
  batch.extra["latent_noise"] = Filled({2, 4, 8, 8}, 613);
  batch.extra["noise"] = Filled({2, 4, 8, 8}, 31);
  batch.extra["timesteps"] = torch::tensor({17, 640}, torch::kLong);
  return batch;
}

TEST(StableDiffusionPipeline, TokenizesAsClip) {
  GoldenTensors golden = ReadDiffusionGolden("pipeline/golden.safetensors");
  const auto tokenizer = OpenTokenizer(absl::StrCat(kPipeline, "/tokenizer"));
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  const auto texts = nlohmann::json::parse(*ReadFile(absl::StrCat(kPipeline, "/tokens.json")));
  ASSERT_GT(texts.size(), 10u);
  for (const auto& [text, ids] : texts.items()) EXPECT_EQ(nlohmann::json((*tokenizer)->Encode(text)->ids), ids) << text;
  EXPECT_EQ((*tokenizer)->Decode((*tokenizer)->Encode("Blue triangle, RED").value().ids), "blue triangle , red");
}

TEST(StableDiffusionPipeline, HasDiffusersLatentsTextLossAndGradients) {
  at::set_num_threads(1);
  GoldenTensors golden = ReadDiffusionGolden("pipeline/golden.safetensors");
  const auto model = LoadPipeline();
  model->train();
  const Batch batch = CaptionedPictures(golden);
  const DiffusionEncoders& encoders = model->encoders();
  EXPECT_FALSE(encoders.vae->is_training() || encoders.text_encoder->is_training());
  const at::Tensor text = model->EncodeTokens(batch.extra.at("input_ids"));
  EXPECT_LE(RelativeDistance(text, golden["text"]), 1e-5);
  const at::Tensor latents = encoders.vae->Encode(batch.inputs).Sample(batch.extra.at("latent_noise")) * 0.18215;
  EXPECT_LE(RelativeDistance(latents, golden["latents"]), 1e-5);
  // The golden leaves out the second text, so this takes its zeros.
  Batch without = batch;
  without.extra["encoder_hidden_states"] = text * torch::tensor({1.0F, 0.0F}).view({2, 1, 1});
  const Outputs outputs = model->forward(without);
  const at::Tensor loss = model->loss(outputs, without).total;
  EXPECT_LE(RelativeDistance(loss, golden["loss"]), 1e-5);
  loss.backward();
  ExpectGoldenGradients(*model, golden);
  for (const auto& item : model->named_parameters()) {
    const bool frozen = item.key().rfind("vae.", 0) == 0 || item.key().rfind("text_encoder.", 0) == 0;
    EXPECT_EQ(item.value().requires_grad(), !frozen) << item.key();
    EXPECT_EQ(item.value().grad().defined(), !frozen) << item.key();
  }
  // With the texts themselves it is another loss; with latents and texts that are computed beforehand, the same.
  EXPECT_GT(RelativeDistance(model->loss(model->forward(batch), batch).total, loss), 1e-4);
  const auto precomputed = LoadPipeline({.precomputed_latents = true});
  without.inputs = golden["latents"];
  EXPECT_LE(RelativeDistance(precomputed->loss(precomputed->forward(without), without).total, golden["loss"]), 1e-5);
}

TEST(StableDiffusionPipeline, SamplesDiffusersPicture) {
  at::set_num_threads(1);
  GoldenTensors golden = ReadDiffusionGolden("pipeline/golden.safetensors");
  const auto model = LoadPipeline();
  model->eval();
  const Batch batch = CaptionedPictures(golden);
  DiffusionCondition condition;
  condition.text = EncodeForSampling(*model, batch.extra.at("input_ids").slice(0, 0, 1));
  const at::Tensor sampled = SamplePictures(*model, batch.extra.at("noise").slice(0, 0, 1), condition,
                                            {.num_inference_steps = 3, .guidance_scale = 3});
  EXPECT_LE(RelativeDistance(sampled, golden["sampled"]), 2e-4);
}

// The latents of an evaluation are drawn by sample, as the noise is.
TEST(StableDiffusionPipeline, IsEvaluatedWithTheSameLatents) {
  GoldenTensors golden = ReadDiffusionGolden("pipeline/golden.safetensors");
  const auto model = LoadPipeline();
  Batch batch = CaptionedPictures(golden);
  for (const char* name : {"latent_noise", "noise", "timesteps"}) batch.extra.erase(name);
  batch.sample_ids = {4, 9};
  model->eval();
  const torch::NoGradGuard no_grad;
  const Outputs whole = model->forward(batch), last = model->forward(batch.Slice(1, 2));
  EXPECT_LE(RelativeDistance(last["outputs"], whole["outputs"].slice(0, 1, 2)), 1e-5);
  EXPECT_TRUE(model->forward(batch)["outputs"].equal(whole["outputs"]));
}

// Steps and noise are in the data: ranks that are threads share torch's generator.
TEST(StableDiffusionPipeline, FullShardTrainsTheUNetAsOneProcess) {
  GoldenTensors golden = ReadDiffusionGolden("pipeline/golden.safetensors");
  const auto run = [&](bool sharded) {
    TrainerOptions options = SmallRun();
    options.model = nullptr;
    options.make_model = [] { return LoadPipeline(); };
    options.train.dataset = std::make_shared<RepeatedSamples>(CaptionedPictures(golden));
    options.train.global_train_batch_size = 8;
    options.make_optimizer = [](Model& model) { return MakeTestAdamW(model, 1e-3); };
    options.max_duration = Time::Batches(3);
    if (sharded) options.fsdp.emplace().strategy = ShardingStrategy::kFullShard;
    return options;
  };
  const auto whole = TrainOnRanks(1, [&](int) { return run(false); });
  ASSERT_TRUE(whole[0].status.ok()) << whole[0].status;
  const auto sharded = TrainOnRanks(2, [&](int) { return run(true); });
  const auto first = LoadPipeline()->named_parameters();
  for (size_t rank = 0; rank < 2; ++rank) {
    const RunResult &a = sharded[rank], &b = whole[0];
    ASSERT_TRUE(a.status.ok()) << a.status;
    ASSERT_EQ(a.losses.size(), b.losses.size());
    for (size_t i = 0; i < a.losses.size(); ++i) EXPECT_NEAR(a.losses[i] / b.losses[i], 1, 1e-5) << i;
    EXPECT_LE(RelativeError(a, b), 5e-4);
    for (const auto& [name, tensor] : a.tensors) {
      const bool frozen = name.rfind("vae.", 0) == 0 || name.rfind("text_encoder.", 0) == 0;
      EXPECT_EQ(tensor.equal(first[name]), frozen) << name;
    }
  }
}

TEST(StableDiffusionPipeline, CanBeDeferred) {
  const ConstructedModel made = ConstructModel([] { return LoadPipeline(); }, 5);
  ASSERT_NE(made.init, nullptr) << made.whole_because;
  const auto params = LoadPipeline()->named_parameters();
  for (const auto& item : made.model->named_parameters()) {
    EXPECT_TRUE(item.value().is_meta()) << item.key();
    EXPECT_EQ(item.value().requires_grad(), params[item.key()].requires_grad()) << item.key();
    EXPECT_TRUE(made.init->Values(item.value()).equal(params[item.key()])) << item.key();
  }
}

TEST(StableDiffusionPipeline, IsVersion2WithoutAFolder) {
  const ConstructedModel made = ConstructModel([] { return LoadStableDiffusion({.precomputed_latents = true}); }, 5);
  ASSERT_NE(made.init, nullptr) << made.whole_because;
  EXPECT_EQ(ParametersOf(*made.model), 865910724);
}

// config.json of unet and vae and scheduler_config.json have these fields in stable-diffusion-2-base, whose first
// files are older than some of diffusers' fields.
TEST(StableDiffusionPipeline, ReadsTheFieldsOfVersion2) {
  HfConfig unet = *HfConfig::Parse(R"({
    "act_fn": "silu", "attention_head_dim": [5, 10, 20, 20], "block_out_channels": [320, 640, 1280, 1280],
    "center_input_sample": false, "cross_attention_dim": 1024, "down_block_types": ["CrossAttnDownBlock2D",
    "CrossAttnDownBlock2D", "CrossAttnDownBlock2D", "DownBlock2D"], "downsample_padding": 1,
    "dual_cross_attention": false, "flip_sin_to_cos": true, "freq_shift": 0, "in_channels": 4, "layers_per_block": 2,
    "mid_block_scale_factor": 1, "norm_eps": 1e-05, "norm_num_groups": 32, "out_channels": 4, "sample_size": 64,
    "up_block_types": ["UpBlock2D", "CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "CrossAttnUpBlock2D"],
    "use_linear_projection": true})");
  const ConstructedModel read = ConstructModel([&] { return MakeConditionalUNet(ReadUNetConfig(unet)); }, 1);
  const ConstructedModel own = ConstructModel([] { return MakeConditionalUNet(StableDiffusion2UNet()); }, 1);
  EXPECT_EQ(NamesDigest(*read.model), NamesDigest(*own.model));
  HfConfig scheduler = *HfConfig::Parse(R"({
    "beta_end": 0.012, "beta_schedule": "scaled_linear", "beta_start": 0.00085, "clip_sample": false,
    "num_train_timesteps": 1000, "prediction_type": "epsilon", "set_alpha_to_one": false, "skip_prk_steps": true,
    "steps_offset": 1, "trained_betas": null})");
  const NoiseSchedule theirs(ReadSchedulerConfig(scheduler)), ours(StableDiffusion2UNet().diffusion.schedule);
  EXPECT_TRUE(theirs.alphas_cumprod().equal(ours.alphas_cumprod()));
  EXPECT_EQ(theirs.SamplingSteps(50), ours.SamplingSteps(50));
  EXPECT_EQ(theirs.options().set_alpha_to_one, ours.options().set_alpha_to_one);
  HfConfig vae = *HfConfig::Parse(R"({
    "act_fn": "silu", "block_out_channels": [128, 256, 512, 512], "down_block_types": ["DownEncoderBlock2D",
    "DownEncoderBlock2D", "DownEncoderBlock2D", "DownEncoderBlock2D"], "in_channels": 3, "latent_channels": 4,
    "layers_per_block": 2, "norm_num_groups": 32, "out_channels": 3, "sample_size": 768, "up_block_types":
    ["UpDecoderBlock2D", "UpDecoderBlock2D", "UpDecoderBlock2D", "UpDecoderBlock2D"]})");
  const AutoencoderOptions options = ReadAutoencoderConfig(vae), defaults;
  EXPECT_EQ(options.block_out_channels, defaults.block_out_channels);
  EXPECT_EQ(options.scaling_factor, defaults.scaling_factor);
}

TEST(StableDiffusionPipeline, NamesWhatDoesNotFit) {
  EXPECT_THAT(ValueErrorOf([] { LoadStableDiffusion({}); }), HasSubstr("model.path: required"));
  EXPECT_THAT(std::string(CatchTorch([] { LoadStableDiffusion({.path = "/nowhere"}); }).message()),
              HasSubstr("/nowhere/unet/config.json"));
  EXPECT_THAT(ValueErrorOf([] { LoadPipeline({.rescale_betas_zero_snr = true}); }), HasSubstr("v_prediction"));
  GoldenTensors golden = ReadDiffusionGolden("pipeline/golden.safetensors");
  const auto model = LoadPipeline();
  Batch batch = CaptionedPictures(golden);
  batch.extra.erase("input_ids");
  EXPECT_THAT(ValueErrorOf([&] { model->forward(batch); }), HasSubstr("to_length: 9"));
  batch.inputs = golden["latents"];
  EXPECT_THAT(ValueErrorOf([&] { model->forward(batch); }), HasSubstr("model.in_channels: the model takes pictures"));
  const auto refused = [](const char* text) {
    return std::string(CatchTorch([&] {
                         HfConfig config = *HfConfig::Parse(text);
                         ReadUNetConfig(config);
                       }).message());
  };
  EXPECT_EQ(refused("{}"), "");
  EXPECT_THAT(refused(R"({"addition_embed_type": "text_time"})"), HasSubstr("`addition_embed_type` is \"text_time\""));
  EXPECT_THAT(refused(R"({"dual_cross_attention": true})"), HasSubstr("`dual_cross_attention` is true"));
}

}  // namespace
}  // namespace composer
