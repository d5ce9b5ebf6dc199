// AugMix and RandAugment: mosaicml 0.32.1's pictures from its draws (tests/golden/images.json), and runs.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/conv.h>
#include <torch/types.h>

#include <nlohmann/json.hpp>

#include "absl/strings/escaping.h"
#include "base/file.h"
#include "tests/support/temp_dir.h"
#include "tests/trainer/algorithms/surgery_runs.h"
#include "tests/trainer/loop/step_runs.h"
#include "trainer/algorithms/augment/augmix.h"
#include "trainer/algorithms/augment/draws.h"
#include "trainer/algorithms/augment/randaugment.h"
#include "trainer/data/images/image_tensor.h"
#include "trainer/data/images/pixel_transforms.h"
#include "trainer/data/prepared_dataset.h"

namespace composer {
namespace {

using testing::HasSubstr;
using ImageJson = nlohmann::json;

at::Tensor GoldenImage(const ImageJson& row, const char* key) {
  std::string bytes;
  absl::Base64Unescape(row[key].get<std::string>(), &bytes);
  Pixels image(row["height"], row["width"], row["channels"]);
  EXPECT_EQ(bytes.size(), image.bytes.size());
  std::copy(bytes.begin(), bytes.end(), image.bytes.begin());
  return TensorOfImage(std::move(image));
}

TEST(ImageAlgorithms, GiveComposersImagesFromItsDraws) {
  const ImageJson golden = ImageJson::parse(ReadFile("tests/golden/images.json").value());
  int cases = 0;
  for (const ImageJson& row : golden["augmented"]) {
    SCOPED_TRACE(row["name"].get<std::string>() + ", " + row["set"].get<std::string>());
    const std::vector<double> draws = row["uniforms"];
    size_t drawn = 0;
    const auto uniform = [&](double low, double high) { return draws.at(drawn++); };
    const AugmentationSet set = ParseAugmentationSet(row["set"].get<std::string>()).value();
    const at::Tensor image = GoldenImage(row, "image");
    at::Tensor result;
    if (row["name"] == "augmix") {
      const AugMixOptions options{.severity = row["severity"], .depth = row["depth"], .augmentation_set = set};
      AugMixWeights weights{{}, static_cast<float>(row["mixing_weight"].get<double>())};
      for (const double weight : row["chain_weights"]) weights.chains.push_back(static_cast<float>(weight));
      result = AugMixImage(image, DrawChains(options, row["height"], row["width"], uniform), weights);
    } else {
      result = RandAugmentImage(
          image, DrawOperations(row["severity"], row["depth"], set, row["height"], row["width"], uniform));
    }
    EXPECT_EQ(drawn, draws.size());
    EXPECT_TRUE(result.equal(GoldenImage(row, "result")));
    ++cases;
  }
  EXPECT_EQ(cases, 20);
}

TEST(ImageAlgorithms, HaveComposersDefaultsAndRanges) {
  EXPECT_EQ(AugMixOptions().severity, 3);
  EXPECT_EQ(RandAugmentOptions().severity, 9);
  EXPECT_THAT(Validate(AugMixOptions{.severity = 11}).message(), HasSubstr("severity: must be from 0 to 10, got 11"));
  EXPECT_THAT(Validate(AugMixOptions{.width = 0}).message(), HasSubstr("width"));
  EXPECT_THAT(Validate(AugMixOptions{.alpha = 0}).message(), HasSubstr("alpha"));
  EXPECT_THAT(Validate(RandAugmentOptions{.depth = -1}).message(), HasSubstr("depth"));
  EXPECT_THAT(ParseAugmentationSet("most").status().message(), HasSubstr("all, safe or original, got `most`"));
}

TEST(ImageAlgorithms, DrawDirichletNumbers) {
  for (const double alpha : {0.3, 1.0, 4.0}) {
    SampleRandom random(9);
    double sum = 0, squares = 0;
    constexpr int kDraws = 20000;
    for (int i = 0; i < kDraws; ++i) {
      const std::vector<double> parts = DrawDirichlet(alpha, 3, random);
      EXPECT_NEAR(parts[0] + parts[1] + parts[2], 1, 1e-9);
      sum += parts[1];
      squares += parts[1] * parts[1];
    }
    const double mean = sum / kDraws, variance = squares / kDraws - mean * mean;
    EXPECT_NEAR(mean, 1.0 / 3, 0.01);
    EXPECT_NEAR(variance, 2.0 / 9 / (3 * alpha + 1), 0.005) << alpha;
  }
  SampleRandom random(3);
  const std::vector<double> tiny = DrawDirichlet(1e-300, 4, random);
  EXPECT_EQ(*std::max_element(tiny.begin(), tiny.end()), 1);
}

// Images of bytes, 24 of 2 classes.
class NoisyBytes final : public SampleSource {
 public:
  int64_t size() const override { return 24; }
  Sample Get(int64_t index) const override {
    Sample sample;
    sample.tensors["inputs"] =
        (DrawTensor(static_cast<uint32_t>(index), {1, 8, 8}) * 100 + 100 + index % 2 * 50).to(at::kByte);
    sample.tensors["targets"] = torch::tensor(index % 2);
    return sample;
  }
};

std::shared_ptr<const Dataset> NoisyImages() {
  return PrepareSamples(
      std::make_shared<const NoisyBytes>(),
      {.transforms = {MakeGrayscale(3), MakeToFloat(), MakeNormalize({0.5, 0.5, 0.5}, {0.5, 0.5, 0.5})}});
}

class NoisyNet final : public Classifier {
 public:
  NoisyNet() : conv_(*this, "conv", std::make_shared<Conv2dLayer>(torch::nn::Conv2dOptions(3, 2, 3))) {}

 protected:
  at::Tensor Logits(const at::Tensor& inputs) override { return conv_->forward(inputs).mean({2, 3}); }

 private:
  Slot<Layer> conv_;
};

RunResult TrainNoisy(const std::vector<std::function<std::unique_ptr<Algorithm>()>>& make, int ranks, bool sharded,
                     const std::string& folder, int64_t batches, int workers = 0) {
  return TrainOnRanks(ranks, [&](int) {
    TrainerOptions options = ImageRun(folder, 10);
    options.make_model = [] { return std::make_shared<NoisyNet>(); };
    options.train.dataset = NoisyImages();
    options.train.prefetch.num_workers = workers;
    if (sharded) options.fsdp.emplace();
    for (const auto& one : make) options.algorithms.push_back(one());
    if (batches < 10) {
      AddCallback(options, {Event::kBatchEnd}, [batches](State& state) {
        if (state.timestamp.batch >= batches) state.StopTraining();
      });
    }
    return options;
  })[0];
}

TEST(ImageAlgorithms, ChangeTheRunAndResumeItOnAnyRanks) {
  const auto augmix = [] { return std::make_unique<AugMix>(); };
  const auto randaugment = [] { return std::make_unique<RandAugment>(); };
  const RunResult plain = TrainNoisy({}, 1, false, "", 10);
  ASSERT_TRUE(plain.status.ok()) << plain.status;
  const RunResult augmented = TrainNoisy({augmix, randaugment}, 1, false, "", 10);
  ASSERT_TRUE(augmented.status.ok()) << augmented.status;
  EXPECT_NE(plain.losses, augmented.losses);
  EXPECT_EQ(TrainNoisy({augmix, randaugment}, 1, false, "", 10, /*workers=*/2).losses, augmented.losses);
  for (const bool sharded : {false, true}) {
    const TempDir whole, stopped;
    const RunResult expected = TrainNoisy({augmix, randaugment}, 2, sharded, whole.path(), 10);
    ASSERT_TRUE(expected.status.ok()) << expected.status;
    for (size_t i = 0; i < expected.losses.size(); ++i) EXPECT_NEAR(expected.losses[i], augmented.losses[i], 1e-5);
    ASSERT_TRUE(TrainNoisy({augmix, randaugment}, 2, sharded, stopped.path(), 4).status.ok());
    const RunResult resumed = TrainNoisy({augmix, randaugment}, 2, sharded, stopped.path(), 10);
    ASSERT_TRUE(resumed.status.ok()) << resumed.status;
    EXPECT_EQ(resumed.losses.back(), expected.losses.back());
  }
}

TEST(ImageAlgorithms, RefuseDataWithoutImagesOfBytes) {
  const RunResult rows = TrainOnRanks(1, [&](int) {
    TrainerOptions options = ImageRun("", 10);
    options.algorithms.push_back(std::make_unique<AugMix>());
    return options;
  })[0];
  EXPECT_THAT(rows.status.message(), HasSubstr("AugMix: it changes images of bytes"));
}

}  // namespace
}  // namespace composer
