// SPDX-License-Identifier: Apache-2.0
#include "trainer/callbacks/output/image_visualizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/types.h>

#include <cmath>

#include "tests/trainer/callbacks/callback_fixture.h"
#include "trainer/callbacks/output/image_tensors.h"

namespace composer {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class ImageVisualizerTest : public CallbackTest {
 protected:
  ImageVisualizerTest() {
    Record();
    state_.batch.inputs = torch::zeros({4, 3, 2, 2});
  }
  // Returns the names of what was logged since the last call.
  std::vector<std::string> Logged() {
    std::vector<std::string> names;
    for (const auto& [name, images] : history_.images) names.push_back(name);
    history_.images.clear();
    return names;
  }
  // Runs a batch of two microbatches.
  void Train(ImageVisualizer& callback, Event event = Event::kBeforeForward) {
    for (int microbatch = 0; microbatch < 2; ++microbatch) ASSERT_TRUE(Fire(callback, event).ok());
    Advance(absl::Seconds(1));
  }
};

TEST_F(ImageVisualizerTest, OnceEveryIntervalWhateverTheMicrobatches) {
  ImageVisualizer callback({.interval = Time::Batches(2), .num_images = 3});
  std::vector<size_t> counts;
  for (int batch = 0; batch < 5; ++batch) {
    Train(callback);
    counts.push_back(Logged().size());
  }
  EXPECT_THAT(counts, ElementsAre(1, 0, 1, 0, 1));
}

TEST_F(ImageVisualizerTest, AnIntervalOfEpochsTakesTheirFirstBatch) {
  ImageVisualizer callback({.interval = Time::Epochs(2)});
  std::vector<size_t> counts;
  for (int epoch = 0; epoch < 4; ++epoch) {
    for (int batch = 0; batch < 2; ++batch) Train(callback);
    counts.push_back(Logged().size());
    state_.timestamp.ToNextEpoch();
  }
  EXPECT_THAT(counts, ElementsAre(1, 0, 1, 0));
}

TEST_F(ImageVisualizerTest, TheFirstBatchOfEachEvaluationOnce) {
  ImageVisualizer callback({});
  for (int evaluation = 0; evaluation < 2; ++evaluation) {
    state_.evaluation.timestamp = Timestamp();
    ASSERT_TRUE(Fire(callback, Event::kEvalStart).ok());
    for (int batch = 0; batch < 3; ++batch) {
      for (int microbatch = 0; microbatch < 2; ++microbatch)
        ASSERT_TRUE(Fire(callback, Event::kEvalBeforeForward).ok());
      state_.evaluation.timestamp.ToNextBatch(16, 0, absl::Seconds(1));
    }
    EXPECT_THAT(Logged(), ElementsAre("Images/Eval"));
  }
}

TEST_F(ImageVisualizerTest, ImagesMayHaveANameOfTheirOwn) {
  ImageVisualizer callback({.input_key = "pixels"});
  state_.batch.extra["pixels"] = torch::zeros({2, 1, 2, 2});
  ASSERT_TRUE(Fire(callback, Event::kBeforeForward).ok());
  ASSERT_EQ(history_.images.size(), 1u);
  EXPECT_EQ(history_.images[0].second.size(), 2u);
  ImageVisualizer other({.input_key = "pictures"});
  EXPECT_THROW(Fire(other, Event::kBeforeForward).IgnoreError(), c10::ValueError);
}

TEST_F(ImageVisualizerTest, AtMostSoManyAndAsManyAsThereAre) {
  ImageVisualizer few({.num_images = 3}), many({.num_images = 8});
  ASSERT_TRUE(Fire(few, Event::kBeforeForward).ok());
  ASSERT_TRUE(Fire(many, Event::kBeforeForward).ok());
  ASSERT_EQ(history_.images.size(), 2u);
  EXPECT_EQ(history_.images[0].second.size(), 3u);
  EXPECT_EQ(history_.images[1].second.size(), 4u);
}

TEST_F(ImageVisualizerTest, SegmentationShowsPredictionAndTruthAsColours) {
  ImageVisualizer callback({.mode = ImageVisualizer::Mode::kSegmentation});
  state_.batch.inputs = torch::zeros({1, 3, 1, 3});
  // The predicted classes are 0, 2, 1 by the largest output; the truth is 0, 2, and a pixel to ignore.
  state_.outputs = torch::tensor({9.F, 0.F, 1.F, 0.F, 0.F, 5.F, 0.F, 7.F, 0.F}).view({1, 3, 1, 3});
  state_.batch.targets = torch::tensor({0, 2, -100}).view({1, 1, 3});
  EXPECT_FALSE(callback.events().Has(Event::kBeforeForward));
  Train(callback, Event::kBeforeLoss);
  ASSERT_EQ(history_.images.size(), 3u);
  EXPECT_EQ(history_.images[0].first, "Images/Train");
  EXPECT_EQ(history_.images[1].first, "Images/Train/prediction");
  EXPECT_THAT(history_.images[1].second[0].pixels, ElementsAre(0, 0, 0, 60, 180, 75, 230, 25, 75));
  EXPECT_EQ(history_.images[2].first, "Images/Train/ground_truth");
  EXPECT_THAT(history_.images[2].second[0].pixels, ElementsAre(0, 0, 0, 60, 180, 75, 255, 255, 255));
}

TEST_F(ImageVisualizerTest, TargetsAsOneNumberAClassAndChannelsLast) {
  ImageVisualizer callback({.mode = ImageVisualizer::Mode::kSegmentation, .channels_last = true});
  state_.batch.inputs = torch::zeros({1, 1, 2, 3});
  state_.outputs = torch::tensor({0.F, 1.F, 1.F, 0.F}).view({1, 1, 2, 2});
  state_.batch.targets = state_.outputs->clone();
  ASSERT_TRUE(Fire(callback, Event::kEvalStart).ok());
  ASSERT_TRUE(Fire(callback, Event::kEvalAfterForward).ok());
  ASSERT_EQ(history_.images.size(), 3u);
  for (const size_t masks : {size_t{1}, size_t{2}}) {
    const Image& image = history_.images[masks].second[0];
    EXPECT_EQ(image.width, 2);
    EXPECT_EQ(image.height, 1);
    EXPECT_THAT(image.pixels, ElementsAre(230, 25, 75, 0, 0, 0));
  }
}

TEST_F(ImageVisualizerTest, WhatIsNoSegmentationSaysSo) {
  ImageVisualizer callback({.mode = ImageVisualizer::Mode::kSegmentation});
  state_.outputs = torch::zeros({4, 10});
  state_.batch.targets = torch::zeros({4});
  const absl::Status status = Fire(callback, Event::kBeforeLoss);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("use mode: input"));
}

TEST_F(ImageVisualizerTest, BatchesThatAreNoImagesAndRanksThatLogNothingAreLeftAlone) {
  ImageVisualizer callback({});
  for (const at::Tensor& inputs : {torch::zeros({4, 7}), torch::zeros({0, 3, 2, 2}), at::Tensor(),
                                   torch::zeros({2, 2, 2}, torch::kComplexFloat)}) {
    state_.batch.inputs = inputs;
    EXPECT_TRUE(Fire(callback, Event::kBeforeForward).ok());
    Advance(absl::Seconds(1));
  }
  EXPECT_THAT(Logged(), IsEmpty());
  Logger silent;
  state_.batch.inputs = torch::zeros({4, 3, 2, 2});
  EXPECT_TRUE(callback.Run(Event::kBeforeForward, state_, silent).ok());
}

TEST(ImageTensorsTest, BytesStayAndUnitNumbersAreScaled) {
  const auto grey = ImagesOf(torch::tensor({0, 7, 255}).to(torch::kByte).view({1, 1, 3}), 8, false);
  ASSERT_EQ(grey.size(), 1u);
  EXPECT_EQ(grey[0].channels, 1);
  EXPECT_EQ(grey[0].width, 3);
  EXPECT_THAT(grey[0].pixels, ElementsAre(0, 7, 255));
  const auto unit = ImagesOf(torch::tensor({0.F, 0.5F, 1.F, NAN}).view({1, 1, 2, 2}), 8, false);
  EXPECT_EQ(unit[0].height, 2);
  EXPECT_THAT(unit[0].pixels, ElementsAre(0, 128, 255, 0));
}

TEST(ImageTensorsTest, OtherNumbersAreStretchedOverAllImagesShown) {
  const auto images = ImagesOf(torch::tensor({-1.F, 0.F, 1.F, 3.F}).view({2, 1, 1, 2}), 8, false);
  EXPECT_THAT(images[0].pixels, ElementsAre(0, 64));
  EXPECT_THAT(images[1].pixels, ElementsAre(128, 255));
  EXPECT_THAT(ImagesOf(torch::full({1, 1, 1, 2}, 5.0), 8, false)[0].pixels, Each(0));
}

TEST(ImageTensorsTest, ThreeChannelsAreColoursInEitherOrderAndOthersGrey) {
  // One pixel is red and one blue.
  const at::Tensor planes = torch::tensor({1.F, 0.F, 0.F, 0.F, 0.F, 1.F}).view({1, 3, 1, 2});
  EXPECT_THAT(ImagesOf(planes, 8, false)[0].pixels, ElementsAre(255, 0, 0, 0, 0, 255));
  EXPECT_THAT(ImagesOf(planes.permute({0, 2, 3, 1}), 8, true)[0].pixels, ElementsAre(255, 0, 0, 0, 0, 255));
  const auto four =
      ImagesOf(torch::stack({torch::ones({1, 2}), torch::zeros({1, 2}), torch::zeros({1, 2}), torch::zeros({1, 2})})
                   .unsqueeze(0),
               8, false);
  EXPECT_EQ(four[0].channels, 1);
  EXPECT_THAT(four[0].pixels, ElementsAre(255, 255));
}

TEST(ImageTensorsTest, ClassColoursRepeatAfterTwenty) {
  const auto masks = MasksOf(torch::tensor({1, 21, 20, 2}).view({1, 2, 2}), 8);
  ASSERT_EQ(masks.size(), 1u);
  EXPECT_THAT(masks[0].pixels, ElementsAre(230, 25, 75, 230, 25, 75, 128, 128, 128, 60, 180, 75));
}

}  // namespace
}  // namespace composer
