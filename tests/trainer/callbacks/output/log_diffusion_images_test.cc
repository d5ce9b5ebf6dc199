// SPDX-License-Identifier: Apache-2.0
#include "trainer/callbacks/output/log_diffusion_images.h"

#include <ATen/Parallel.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include "base/file.h"
#include "checkpoint/format/safetensors.h"
#include "checkpoint/tools/weight_files.h"
#include "data/image/png.h"
#include "tests/support/temp_dir.h"
#include "tests/trainer/callbacks/callback_fixture.h"
#include "trainer/models/hf/hf_diffusion.h"
#include "trainer/models/mlp.h"
#include "trainer/models/vision/conditional_unet.h"
#include "trainer/tokenizers/file_tokenizer.h"

namespace composer {
namespace {

using ::testing::HasSubstr;

ConditionalUNetOptions TinyUNet(int64_t channels, int64_t classes) {
  return {.in_channels = channels,
          .out_channels = channels,
          .block_out_channels = {8},
          .down_block_types = {"DownBlock2D"},
          .up_block_types = {"UpBlock2D"},
          .mid_block_type = "UNetMidBlock2D",
          .layers_per_block = 1,
          .num_class_embeds = classes,
          .norm_num_groups = 4,
          .sample_size = 5};
}

class LogDiffusionImagesTest : public CallbackTest {
 protected:
  void Use(int64_t channels, int64_t classes) {
    torch::manual_seed(3);
    state_.model = MakeConditionalUNet(TinyUNet(channels, classes));
    state_.identity.run_folder = dir_.path();
    state_.timestamp.batch = 7;
  }
  absl::Status Made(const LogDiffusionImages::Options& options) {
    LogDiffusionImages callback(options);
    const absl::Status status = Fire(callback, Event::kEvalAfterAll);
    EXPECT_TRUE(Fire(callback, Event::kFitEnd).ok() || !status.ok()) << "nothing is made twice";
    return status;
  }
  std::string Png() const { return *ReadFile(dir_.Path("images/sampled-ba7.png")); }

  TempDir dir_;
};

TEST_F(LogDiffusionImagesTest, WritesPicturesInRows) {
  Use(3, 4);
  Record();
  const LogDiffusionImages::Options options = {.sampling = {.num_inference_steps = 2, .guidance_scale = 2},
                                               .class_labels = {0, 1, 2, 0, 1}};
  state_.model->train();
  ASSERT_TRUE(Made(options).ok());
  EXPECT_TRUE(state_.model->is_training());
  ASSERT_EQ(history_.images.size(), 1u);
  EXPECT_EQ(history_.images[0].first, "Images/Sampled");
  EXPECT_EQ(history_.images[0].second.size(), 5u);
  const std::string png = Png();
  const auto pixels = DecodePng(png, /*alpha=*/false, 1 << 20);
  ASSERT_TRUE(pixels.ok()) << pixels.status();
  EXPECT_EQ(pixels->height, 2 * 5);
  EXPECT_EQ(pixels->width, 3 * 5);
  ASSERT_TRUE(Made(options).ok());
  EXPECT_EQ(Png(), png) << "a function of model, seed and conditions";
  LogDiffusionImages::Options other = options;
  other.sampling.seed = 1;
  ASSERT_TRUE(Made(other).ok());
  EXPECT_NE(Png(), png);
}

TEST_F(LogDiffusionImagesTest, WritesLatentsAsTensors) {
  Use(4, 0);
  ASSERT_TRUE(Made({.sampling = {.sampler = DiffusionSampler::kDdpm, .num_inference_steps = 2}, .num_images = 3}).ok());
  const auto read = ReadWeights(dir_.Path("images/sampled-ba7.safetensors"), "");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->tensors[0].first, "samples");
  EXPECT_EQ(read->tensors[0].second.sizes().vec(), (std::vector<int64_t>{3, 4, 5, 5}));
}

// Writes float32 tensors of ones as a safetensors file; the names are in order.
void WriteOnes(const std::string& path, std::vector<SafetensorsEntry> entries) {
  std::string file = *LayOutSafetensors(&entries);
  for (const SafetensorsEntry& entry : entries) {
    const at::Tensor ones = torch::ones(entry.shape);
    file.append(static_cast<const char*>(ones.const_data_ptr()), ones.nbytes());
  }
  ASSERT_TRUE(AtomicWriteFile(path, file).ok());
}

TEST_F(LogDiffusionImagesTest, ReadsTextsAndWhatStandsForNone) {
  Use(3, 0);
  ConditionalUNetOptions options = TinyUNet(3, 0);
  options.down_block_types = {"CrossAttnDownBlock2D"};
  options.attention_head_dim = {2};
  options.cross_attention_dim = 6;
  torch::manual_seed(3);
  state_.model = MakeConditionalUNet(options);
  const std::string path = dir_.Path("texts.safetensors");
  const auto guided = [&](double guidance) {
    return Made({.sampling = {.num_inference_steps = 2, .guidance_scale = guidance}, .conditions = path});
  };
  WriteOnes(path, {{"encoder_hidden_states", "F32", {4, 2, 6}}, {"negative_encoder_hidden_states", "F32", {1, 2, 6}}});
  ASSERT_TRUE(guided(1).ok());
  const std::string alone = Png();
  EXPECT_EQ(DecodePng(alone, /*alpha=*/false, 1 << 20)->width, 2 * 5) << "a picture for each text";
  WriteOnes(path, {{"encoder_hidden_states", "F32", {4, 2, 6}}});
  ASSERT_TRUE(guided(9).ok());
  EXPECT_NE(Png(), alone) << "guided away from zeros";
  WriteOnes(path, {{"encoder_hidden_states", "F32", {4, 2, 6}}, {"negative_encoder_hidden_states", "F32", {3, 2, 6}}});
  EXPECT_THAT(guided(9).message(), HasSubstr("negative_encoder_hidden_states must be"));
}

TEST_F(LogDiffusionImagesTest, PaintsPromptsThroughTextEncoderAndAutoencoder) {
  at::set_num_threads(1);
  Use(3, 0);
  state_.model = LoadStableDiffusion({.path = "tests/golden/diffusion/pipeline"});
  const auto guided = [&](std::optional<std::string> negative_prompt) {
    return Made({.sampling = {.num_inference_steps = 2, .guidance_scale = 3},
                 .prompts = {"a red disc", "a blue square", "a green triangle"},
                 .negative_prompt = std::move(negative_prompt)});
  };
  EXPECT_THAT(guided(std::nullopt).message(), HasSubstr("prompts need a tokenizer"));
  state_.tokenizer =
      std::make_shared<const FileTokenizer>(FileTokenizerOptions{.path = "tests/golden/diffusion/pipeline/tokenizer"});
  ASSERT_TRUE(guided(std::nullopt).ok());
  const std::string away_from_zeros = Png();
  EXPECT_EQ(DecodePng(away_from_zeros, /*alpha=*/false, 1 << 20)->width, 2 * 16) << "pictures, not latents";
  ASSERT_TRUE(guided("a red disc").ok());
  EXPECT_NE(Png(), away_from_zeros);
}

TEST_F(LogDiffusionImagesTest, NamesWhatDoesNotFit) {
  Use(3, 4);
  EXPECT_THAT(Made({.sampling = {.num_inference_steps = 2000}}).message(), HasSubstr("model.num_class_embeds"));
  EXPECT_THAT(Made({.sampling = {.num_inference_steps = 2000}, .class_labels = {1}}).message(),
              HasSubstr("num_inference_steps: 2000"));
  EXPECT_THAT(Made({.sampling = {.num_inference_steps = 2}, .class_labels = {4}}).message(),
              HasSubstr("model.num_class_embeds: it has 4 classes"));
  EXPECT_FALSE(Made({.conditions = dir_.Path("none.safetensors")}).ok());
  state_.identity.run_folder.clear();
  EXPECT_THAT(Made({.sampling = {.num_inference_steps = 2}, .class_labels = {1}}).message(), HasSubstr("run_folder"));
  state_.model = MakeMlp({4, 4, 2});
  EXPECT_THAT(Made({}).message(), HasSubstr("is not a diffusion model"));
}

}  // namespace
}  // namespace composer
