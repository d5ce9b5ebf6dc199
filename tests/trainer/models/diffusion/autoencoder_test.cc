// The autoencoder computes what diffusers' computes with the same folder, and has its names.
// SPDX-License-Identifier: Apache-2.0
#include "trainer/models/vision/autoencoder.h"

#include <ATen/Parallel.h>
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "absl/strings/str_replace.h"
#include "base/file.h"
#include "checkpoint/format/safetensors.h"
#include "tests/support/temp_dir.h"
#include "tests/trainer/models/diffusion/diffusion_golden.h"
#include "trainer/core/torch_status.h"
#include "trainer/init/construct_model.h"
#include "trainer/models/hf/hf_diffusion.h"

namespace composer {
namespace {

using testing::HasSubstr;

constexpr char kDiffusionGoldens[] = "tests/golden/diffusion/";

std::shared_ptr<Autoencoder> LoadVae(const std::string& name) {
  return LoadAutoencoder({.path = kDiffusionGoldens + name, .kl_weight = 0.01});
}

Batch PicturesFor(const Autoencoder& model) {
  Batch batch;
  batch.num_samples = 2;
  batch.inputs = Filled({2, model.options().in_channels, 16, 24}, 7919);
  return batch;
}

class AutoencoderOf : public testing::TestWithParam<const char*> {};

TEST_P(AutoencoderOf, HasDiffusersMomentsPicturesAndGradients) {
  at::set_num_threads(1);
  GoldenTensors golden = ReadDiffusionGolden(absl::StrCat(GetParam(), "/golden.safetensors"));
  const auto model = LoadVae(GetParam());
  Batch batch = PicturesFor(*model);
  batch.extra["latent_noise"] = Filled(golden["mean"].sizes().vec(), 31);
  const Outputs outputs = model->forward(batch);
  EXPECT_LE(RelativeDistance(outputs["mean"], golden["mean"]), 1e-5);
  EXPECT_LE(RelativeDistance(outputs["logvar"], golden["logvar"]), 1e-5);
  EXPECT_LE(RelativeDistance(outputs["outputs"], golden["decoded"]), 1e-5);
  const at::Tensor loss = model->loss(outputs, batch).total;
  EXPECT_LE(RelativeDistance(loss, golden["loss"]), 1e-5);
  loss.backward();
  ExpectGoldenGradients(*model, golden);
}

INSTANTIATE_TEST_SUITE_P(Vae, AutoencoderOf, testing::Values("vae", "vae_bare"));

TEST(Autoencoder, HasDiffusersNamesAndOperationsInFullSize) {
  const auto golden = nlohmann::json::parse(*ReadFile(absl::StrCat(kDiffusionGoldens, "names.json")));
  const ConstructedModel made =
      ConstructModel([] { return std::make_shared<Autoencoder>(AutoencoderOptions{.sample_size = 768}); }, 1);
  ASSERT_NE(made.init, nullptr) << made.whole_because;
  EXPECT_EQ(NamesDigest(*made.model), golden["vae"].get<std::string>());
  EXPECT_EQ(ParametersOf(*made.model), golden["vae_parameters"].get<int64_t>());
  EXPECT_NEAR(made.model->flops_per_sample() / 3 / golden["vae_operations"].get<double>(), 1, 1e-4);
}

// The files that Stability AI published have diffusers' first names of the attention's layers.
TEST(Autoencoder, KnowsTheFirstNamesOfAttention) {
  const TempDir folder;
  const GoldenTensors tensors = ReadDiffusionGolden("vae/diffusion_pytorch_model.safetensors");
  std::map<std::string, at::Tensor> renamed;
  for (const auto& [name, tensor] : tensors) {
    const bool attends = name.find(".attentions.") != std::string::npos;
    renamed[attends ? absl::StrReplaceAll(name, {{".to_q.", ".query."},
                                                 {".to_k.", ".key."},
                                                 {".to_v.", ".value."},
                                                 {".to_out.0.", ".proj_attn."}})
                    : name] = tensor;
  }
  EXPECT_TRUE(renamed.contains("encoder.mid_block.attentions.0.proj_attn.bias"));
  std::vector<SafetensorsEntry> entries;
  for (const auto& [name, tensor] : renamed) entries.push_back({name, "F32", tensor.sizes().vec()});
  std::string file = *LayOutSafetensors(&entries);
  for (const SafetensorsEntry& entry : entries) {
    const at::Tensor tensor = renamed[entry.name].contiguous();
    file.append(static_cast<const char*>(tensor.const_data_ptr()), tensor.nbytes());
  }
  ASSERT_TRUE(AtomicWriteFile(folder.Path("diffusion_pytorch_model.safetensors"), file).ok());
  ASSERT_TRUE(
      AtomicWriteFile(folder.Path("config.json"), *ReadFile(absl::StrCat(kDiffusionGoldens, "vae/config.json"))).ok());
  const auto model = LoadAutoencoder({.path = folder.path()});
  const auto expected = LoadVae("vae")->named_parameters();
  for (const auto& item : model->named_parameters())
    EXPECT_TRUE(item.value().equal(expected[item.key()])) << item.key();
}

TEST(Autoencoder, EncodesForPrediction) {
  const auto model = LoadVae("vae");
  const auto encoder = LoadAutoencoder({.path = absl::StrCat(kDiffusionGoldens, "vae"), .encode_only = true});
  const Batch batch = PicturesFor(*model);
  const torch::NoGradGuard no_grad;
  EXPECT_FALSE(model->forward(batch)["latents"].equal(model->forward(batch)["latents"])) << "drawn in training";
  model->eval();
  encoder->eval();
  const Outputs outputs = model->forward(batch), latents = encoder->forward(batch);
  EXPECT_TRUE(latents.tensor().equal(outputs["mean"] * 0.18215));
  EXPECT_TRUE(latents.tensor().equal(outputs["latents"]));
  EXPECT_THAT(ValueErrorOf([&] { encoder->loss(latents, batch); }), HasSubstr("model.encode_only"));
  const MetricList metrics = model->metrics(/*is_train=*/false);
  metrics[0]->Update(outputs, batch);
  EXPECT_EQ(metrics[0]->name(), "MeanSquaredError");
  EXPECT_NEAR(metrics[0]->Compute(), (outputs["outputs"] - batch.inputs).square().mean().item<double>(), 1e-6);
}

TEST(Autoencoder, NamesWhatDoesNotFit) {
  const auto error = [](const AutoencoderOptions& options) {
    return ValueErrorOf([&] { std::make_shared<Autoencoder>(options); });
  };
  const AutoencoderOptions small = {.block_out_channels = {8, 8}, .norm_num_groups = 4};
  EXPECT_EQ(error(small), "none");
  AutoencoderOptions wrong = small;
  wrong.norm_num_groups = 3;
  EXPECT_THAT(error(wrong), HasSubstr("model.norm_num_groups: 3 does not divide"));
  EXPECT_THAT(error({.out_channels = 1}), HasSubstr("model.out_channels: 1 must be equal to in_channels"));
  EXPECT_THAT(error({.block_out_channels = {}}), HasSubstr("model.block_out_channels: 0 of them"));
  EXPECT_THAT(error({.scaling_factor = 0}), HasSubstr("model.scaling_factor: 0"));
  Batch batch;
  batch.inputs = torch::zeros({1, 3, 9, 8});
  EXPECT_THAT(ValueErrorOf([&] { Autoencoder(small).forward(batch); }), HasSubstr("must be multiples of 2"));
  batch.inputs = torch::zeros({1, 1, 8, 8});
  EXPECT_THAT(ValueErrorOf([&] { Autoencoder(small).forward(batch); }), HasSubstr("model.in_channels"));
  const auto refused = [](const std::string& text) {
    return std::string(CatchTorch([&] {
                         HfConfig config = *HfConfig::Parse(text);
                         ReadAutoencoderConfig(config);
                       }).message());
  };
  EXPECT_EQ(refused("{}"), "");
  EXPECT_THAT(refused(R"({"down_block_types": ["AttnDownEncoderBlock2D"]})"),
              HasSubstr("`down_block_types` has `AttnDownEncoderBlock2D`; supported is only DownEncoderBlock2D"));
  EXPECT_THAT(refused(R"({"shift_factor": 0.1})"), HasSubstr("`shift_factor` is 0.1"));
  EXPECT_THAT(refused(R"({"block_out_channels": [8, 0]})"), HasSubstr("`block_out_channels` is [8,0]"));
  EXPECT_THAT(refused(R"({"groups": 3})"), HasSubstr("`groups` (3)"));
}

}  // namespace
}  // namespace composer
