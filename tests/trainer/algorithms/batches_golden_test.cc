// Compares CutMix, CutOut, ColOut, ProgressiveResizing and SeqLengthWarmup with mosaicml 0.32.1's
// (tests/golden/batches.json).
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <torch/types.h>

#include <nlohmann/json.hpp>

#include "base/file.h"
#include "tests/trainer/algorithms/surgery_runs.h"
#include "trainer/algorithms/augment/colout.h"
#include "trainer/algorithms/augment/cutmix.h"
#include "trainer/algorithms/augment/cutout.h"
#include "trainer/algorithms/schedule/progressive_resizing.h"
#include "trainer/algorithms/schedule/seq_length_warmup.h"

namespace composer {
namespace {

using Json = nlohmann::json;

const Json& BatchesGolden() {
  static const Json* golden = new Json(Json::parse(ReadFile("tests/golden/batches.json").value()));
  return *golden;
}

constexpr ImageSize kGoldenSize = {7, 10};
at::Tensor GoldenImages() { return DrawTensor(5, {3, 2, 7, 10}); }

void ExpectValues(const at::Tensor& ours, const Json& golden) {
  const auto values = golden.get<std::vector<double>>();
  ASSERT_EQ(ours.numel(), static_cast<int64_t>(values.size()));
  EXPECT_TRUE(ours.flatten().to(at::kDouble).equal(torch::tensor(values, at::kDouble)));
}

// The ranges that numpy was asked for are those from which ours draw: the ends occur, and nothing beyond them.
void ExpectDrawsFrom(const ImageSize& size, bool uniform, const Json& asked) {
  const int64_t low_y = asked[0][0], high_y = asked[0][1], low_x = asked[1][0], high_x = asked[1][1];
  int64_t top = 100, bottom = -100;
  for (int i = 0; i < 400; ++i) {
    const ImageBox box = DrawBox(kGoldenSize, size, uniform);
    top = std::min(top, box.bottom);
    bottom = std::max(bottom, box.top);
  }
  EXPECT_EQ(top, BoxAround(kGoldenSize, size, low_y, low_x).bottom);
  EXPECT_EQ(bottom, BoxAround(kGoldenSize, size, high_y - 1, high_x - 1).top);
}

TEST(BatchesGolden, CutMixPastesTheBoxesOfComposer) {
  torch::manual_seed(1);
  const Json& golden = BatchesGolden()["cutmix"];
  const at::Tensor permutation = torch::tensor(golden["permutation"].get<std::vector<int64_t>>());
  for (const Json& row : golden["rows"]) {
    SCOPED_TRACE(row["b"].dump());
    const ImageSize size = CutMixSize(kGoldenSize, row["b"]);
    const ImageBox box = BoxAround(kGoldenSize, size, row["y"], row["x"]);
    EXPECT_EQ(Json::array({box.top, box.left, box.bottom, box.right}), row["box"]);
    EXPECT_NEAR(1 - static_cast<double>(box.area()) / 70, row["kept"].get<double>(), 1e-12);
    ExpectValues(CutMixBatch(GoldenImages(), permutation, box), row["mixed"]);
    ExpectDrawsFrom(size, row["uniform"], row["asked"]);
  }
}

TEST(BatchesGolden, CutOutBlanksTheSquaresOfComposer) {
  torch::manual_seed(2);
  for (const Json& row : BatchesGolden()["cutout"]) {
    const auto side = static_cast<int64_t>(7 * row["length"].get<double>());
    std::vector<ImageBox> boxes;
    for (size_t i = 0; i < row["draws"].size(); i += 2)
      boxes.push_back(BoxAround(kGoldenSize, {side, side}, row["draws"][i], row["draws"][i + 1]));
    ExpectValues(CutOutBatch(GoldenImages(), boxes), row["cut"]);
    if (!boxes.empty()) ExpectDrawsFrom({side, side}, row["uniform"], row["asked"]);
    const CutOutOptions options = {.num_holes = row["num_holes"], .length = row["length"]};
    EXPECT_EQ(DrawHoles(kGoldenSize, options).size(), row["num_holes"].get<size_t>());
  }
}

TEST(BatchesGolden, ColOutKeepsTheRowsOfComposer) {
  for (const Json& row : BatchesGolden()["colout"]) {
    torch::manual_seed(row["seed"].get<uint64_t>());
    const at::Tensor rows = DrawKept(7, row["p_row"]), columns = DrawKept(10, row["p_col"]);
    const at::Tensor x = ColOutBatch(GoldenImages(), rows, columns);
    EXPECT_EQ(x.sizes().vec(), row["shape"].get<std::vector<int64_t>>());
    ExpectValues(x, row["x"]);
    EXPECT_EQ(ColOutBatch(GoldenImages().select(1, 0), rows, columns).sizes().vec(),
              row["y_shape"].get<std::vector<int64_t>>());
  }
}

ProgressiveResizingOptions ResizingOf(const Json& arguments) {
  ProgressiveResizingOptions options;
  options.initial_scale = arguments.value("initial_scale", options.initial_scale);
  options.finetune_fraction = arguments.value("finetune_fraction", options.finetune_fraction);
  options.delay_fraction = arguments.value("delay_fraction", options.delay_fraction);
  options.size_increment = arguments.value("size_increment", options.size_increment);
  return options;
}

TEST(BatchesGolden, ProgressiveResizingHasTheSizesOfComposer) {
  const Json& golden = BatchesGolden()["resizing"];
  for (const Json& row : golden["scales"]) {
    SCOPED_TRACE(row.dump());
    const ProgressiveResizingOptions options = ResizingOf(row["arguments"]);
    const double scale = ResizingScale(options, row["elapsed"]);
    EXPECT_NEAR(scale, row["scale"].get<double>(), 1e-12);
    const at::Tensor x = torch::zeros({1, 1, 26, 30});
    const double rounded = RoundedScale(30, scale, options.size_increment);
    EXPECT_EQ(ResizeBatch(x, {}, rounded, false, false).inputs.sizes().slice(2).vec(),
              row["size"].get<std::vector<int64_t>>());
  }
  for (const Json& row : golden["batches"]) {
    SCOPED_TRACE(row["mode"].dump() + row["scale"].dump());
    torch::manual_seed(row["seed"].get<uint64_t>());
    const at::Tensor labels = (GoldenImages().select(1, 0) * 9).to(at::kLong);
    const ResizedBatch resized =
        ResizeBatch(GoldenImages(), labels, row["scale"], row["mode"] == "crop", row["resize_targets"]);
    EXPECT_EQ(resized.inputs.sizes().vec(), row["shape"].get<std::vector<int64_t>>());
    ExpectValues(resized.inputs, row["x"]);
    EXPECT_EQ(resized.targets.scalar_type(), at::kLong);
    ExpectValues(resized.targets, row["y"]);
  }
}

TEST(BatchesGolden, SeqLengthWarmupHasTheLengthsOfComposer) {
  for (const Json& row : BatchesGolden()["lengths"]) {
    const Json& arguments = row["arguments"];
    SeqLengthWarmupOptions options;
    options.duration = arguments.value("duration", options.duration);
    options.min_seq_length = arguments.value("min_seq_length", options.min_seq_length);
    options.max_seq_length = arguments.value("max_seq_length", options.max_seq_length);
    options.step_size = arguments.value("step_size", options.step_size);
    for (size_t batch = 0; batch < row["lengths"].size(); ++batch)
      EXPECT_EQ(WarmupLength(options, static_cast<int64_t>(batch), row["batches"]), row["lengths"][batch]) << batch;
  }
}

TEST(BatchesGolden, SeqLengthWarmupCutsSequencesAsComposer) {
  for (const Json& row : BatchesGolden()["sequences"]) {
    SCOPED_TRACE(row["length"].dump());
    Batch batch;
    batch.inputs = torch::arange(36, at::kLong).view({3, 12});
    batch.targets = batch.inputs + 100;
    batch.num_samples = 3;
    batch.num_tokens = 36;
    batch.extra["attention_mask"] =
        torch::arange(12).unsqueeze(0).lt(torch::tensor({12, 3, 8}).unsqueeze(1)).to(at::kLong);
    SetBatchSequenceLength(batch, row["length"], row["truncate"], row["preserve"]);
    EXPECT_EQ(batch.inputs.sizes().vec(), row["shape"].get<std::vector<int64_t>>());
    EXPECT_EQ(batch.num_tokens, batch.inputs.numel());
    ExpectValues(batch.inputs, row["input_ids"]);
    ExpectValues(batch.targets, row["labels"]);
    ExpectValues(batch.extra["attention_mask"], row["attention_mask"]);
  }
}

// Where Composer divides by zero.
TEST(SeqLengthWarmup, AShortWarmupGrowsInProportion) {
  const SeqLengthWarmupOptions options = {.min_seq_length = 8, .max_seq_length = 108, .step_size = 10};
  EXPECT_EQ(WarmupLength(options, 0, 10), 8);
  EXPECT_EQ(WarmupLength(options, 1, 10), 38);
  EXPECT_EQ(WarmupLength(options, 2, 10), 68);
  EXPECT_EQ(WarmupLength(options, 3, 10), 108);
  EXPECT_EQ(WarmupLength(options, 0, 3), 108);
  const SeqLengthWarmupOptions one = {.min_seq_length = 8, .max_seq_length = 12};
  EXPECT_EQ(WarmupLength(one, 2, 10), 8);
  EXPECT_EQ(WarmupLength(one, 3, 10), 12);
}

}  // namespace
}  // namespace composer
