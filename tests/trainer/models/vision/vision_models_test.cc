// Each model computes what torchvision computes with the same weights, and has its names; wrong input is named.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/Parallel.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/file.h"
#include "tests/trainer/models/vision/vision_golden.h"
#include "trainer/init/construct_model.h"
#include "trainer/models/vision/vit.h"

namespace composer {
namespace {

using testing::HasSubstr;

// A gradient that is zero but for rounding (of a bias before a norm) has no relative difference.
void ExpectSameGradients(const Model& model, const TensorsByName& golden) {
  double largest = 0;
  for (const auto& [key, tensor] : golden) {
    if (key.starts_with("grad/")) largest = std::max(largest, tensor.norm().item<double>());
  }
  size_t compared = 0, close = 0, count = 0;
  for (const auto& item : model.named_parameters()) {
    ASSERT_TRUE(golden.contains("grad/" + item.key())) << item.key();
    const at::Tensor& expected = golden.at("grad/" + item.key());
    const at::Tensor& grad = item.value().grad();
    ++count;
    if (expected.norm().item<double>() < 1e-6 * largest) {
      EXPECT_LT(grad.norm().item<double>(), 3e-6 * largest) << item.key();
    } else {
      const double difference = RelativeDifferenceOf(grad, expected);
      EXPECT_LE(difference, 4e-3) << item.key();  // a ReLU's input near 0 may be on its other side
      close += difference <= 1e-4 ? 1 : 0;
      ++compared;
    }
  }
  EXPECT_GT(compared, count * 9 / 10);
  EXPECT_GT(close, compared * 3 / 4);
}

class VisionModel : public testing::TestWithParam<const char*> {};

TEST_P(VisionModel, HasTorchvisionsOutputsLossAndGradients) {
  at::set_num_threads(1);
  TensorsByName golden = ReadTensors(absl::StrCat("tests/golden/vision/", GetParam(), "/golden.safetensors"));
  const auto model = LoadVisionGolden(GetParam());
  const Batch batch = BatchOfGolden(GetParam());
  {
    const torch::NoGradGuard no_grad;
    model->eval();
    EXPECT_LE(RelativeDifferenceOf(model->forward(batch).tensor(), golden["evaluated"]), 1e-5);
    model->train();
  }
  const Outputs outputs = model->forward(batch);
  EXPECT_LE(RelativeDifferenceOf(outputs.tensor(), golden["logits"]), 4e-5);
  const at::Tensor loss = model->loss(outputs, batch).total;
  EXPECT_LE(RelativeDifferenceOf(loss, golden["loss"]), 1e-5);
  loss.backward();
  ExpectSameGradients(*model, golden);
  for (const auto& item : model->named_buffers()) {
    if (!item.key().ends_with("running_var")) continue;
    EXPECT_LE(RelativeDifferenceOf(item.value(), golden["after/" + item.key()]), 1e-5) << item.key();
  }
}

// Batch norm over the few numbers that a small picture leaves to late layers amplifies rounding, so that two right
// computations differ by more than one layer's rounding: ours must be as near to float64's as torchvision's is.
TEST_P(VisionModel, RoundsNoWorseThanTorchvision) {
  const at::Tensor golden =
      ReadTensors(absl::StrCat("tests/golden/vision/", GetParam(), "/golden.safetensors"))["logits"];
  const auto logits = [](at::ScalarType type) {
    const auto model = LoadVisionGolden(GetParam());
    Batch batch = BatchOfGolden(GetParam());
    model->to(type);
    batch.inputs = batch.inputs.to(type);
    const torch::NoGradGuard no_grad;
    return model->forward(batch).tensor().to(at::kDouble);
  };
  const at::Tensor exact = logits(at::kDouble);
  const double theirs = RelativeDifferenceOf(golden.to(at::kDouble), exact);
  EXPECT_LE(RelativeDifferenceOf(logits(at::kFloat), exact), 3 * theirs + 1e-6) << "torchvision's: " << theirs;
}

TEST_P(VisionModel, HasALossBySampleAndMetrics) {
  const auto model = LoadVisionGolden(GetParam());
  Batch batch = BatchOfGolden(GetParam());
  const torch::NoGradGuard no_grad;
  batch.targets.clamp_min_(0);  // all pixels count, so that the mean of the samples' losses is the loss
  const Outputs outputs = model->forward(batch);
  const at::Tensor mean = model->sample_losses(outputs, batch).mean();
  EXPECT_LE(RelativeDifferenceOf(mean, model->loss(outputs, batch).total), 1e-5);
  for (const bool is_train : {true, false}) {
    for (const auto& metric : model->metrics(is_train)) {
      metric->Update(outputs, batch);
      EXPECT_TRUE(std::isfinite(metric->Compute())) << metric->name();
    }
  }
}

// A model of the same seed is the same one when its construction is deferred.
TEST_P(VisionModel, CanBeDeferred) {
  const auto make = GoldenOf(GetParam()).make;
  torch::manual_seed(5);
  const auto whole = make();
  const ConstructedModel made = ConstructModel(make, 5);
  ASSERT_NE(made.init, nullptr) << made.whole_because;
  const auto params = whole->named_parameters();
  for (const auto& item : made.model->named_parameters()) {
    EXPECT_TRUE(item.value().is_meta()) << item.key();
    EXPECT_EQ(made.init->Values(item.value()).sizes(), params[item.key()].sizes()) << item.key();
  }
}

INSTANTIATE_TEST_SUITE_P(Vision, VisionModel, testing::ValuesIn(kVisionGoldens),
                         [](const auto& info) { return std::string(info.param); });

// FNV-1a of the sorted lines "NAME 64x3x7x7".
std::string Digest(const torch::nn::Module& model) {
  std::vector<std::string> lines;
  for (const auto& [name, tensor] : ParametersAndBuffers(model))
    lines.push_back(absl::StrCat(name, " ", absl::StrJoin(tensor.sizes(), "x"), "\n"));
  std::sort(lines.begin(), lines.end());
  uint64_t value = 0xcbf29ce484222325ULL;
  for (const char c : absl::StrJoin(lines, "")) value = (value ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return absl::StrCat(absl::Hex(value, absl::kZeroPad16));
}

using MakeModel = std::function<std::shared_ptr<Model>()>;
MakeModel OfResNet(const ResNetOptions& options) {
  return [=] { return MakeResNet(options); };
}

// Names and layouts in full size are torchvision's (and timm's, of the ResNets); the numbers of operations are those of
// torchvision's documentation (10^9 multiplications of a forward pass).
TEST(VisionNames, AreTorchvisionsAndTransformers) {
  const struct {
    const char* name;
    MakeModel make;
    double multiplications;
  } cases[] = {
      {"resnet18", OfResNet({.depth = 18}), 1.814},
      {"resnet34", OfResNet({.depth = 34}), 3.664},
      {"resnet50", OfResNet({}), 4.089},
      {"resnet101", OfResNet({.depth = 101}), 7.801},
      {"resnet152", OfResNet({.depth = 152}), 11.514},
      {"resnext50_32x4d", OfResNet({.groups = 32, .width_per_group = 4}), 4.23},
      {"wide_resnet50_2", OfResNet({.width_per_group = 128}), 11.398},
      {"efficientnet_b0", [] { return MakeEfficientNet({}); }, 0.386},
      {"efficientnet_b4",
       [] { return MakeEfficientNet({.width_mult = 1.4, .depth_mult = 1.8, .dropout = 0.4, .image_size = 380}); },
       4.394},
      {"deeplabv3_resnet50", [] { return MakeDeepLabV3({}); }, 0},
      {"deeplabv3_resnet101", [] { return MakeDeepLabV3({.backbone = {.depth = 101}}); }, 0},
      {"vit_base", [] { return MakeVit({.num_labels = 1000}); }, 17.564},
  };
  const std::string golden = *ReadFile("tests/golden/vision/names.json");
  for (const auto& row : cases) {
    const ConstructedModel made = ConstructModel(row.make, 1);
    ASSERT_NE(made.init, nullptr) << row.name << made.whole_because;
    EXPECT_THAT(golden, HasSubstr(absl::StrCat("\"", row.name, "\": \"", Digest(*made.model), "\"")));
    EXPECT_GT(made.model->flops_per_sample(), 0);
    if (row.multiplications > 0)
      EXPECT_NEAR(made.model->flops_per_sample() / 6e9 / row.multiplications, 1, 0.02) << row.name;
  }
}

std::string ErrorOf(const std::function<void()>& act) {
  try {
    act();
  } catch (const c10::ValueError& error) {
    return error.what_without_backtrace();
  }
  return "none";
}

TEST(VisionErrors, NameTheOption) {
  const auto resnet = [](const ResNetOptions& options) { return ErrorOf([=] { MakeResNet(options); }); };
  EXPECT_THAT(resnet({.depth = 51}), HasSubstr("model.depth: 51; there are 18, 34, 50, 101 and 152"));
  EXPECT_THAT(resnet({.depth = 18, .groups = 2}), HasSubstr("groups must be 1"));
  EXPECT_THAT(resnet({.width = 6, .groups = 4}), HasSubstr("model.width: 6"));
  EXPECT_THAT(resnet({.classes = 0}), HasSubstr("model.num_classes: 0 must be at least 1"));
  EXPECT_THAT(ErrorOf([] { MakeResNetCifar({.depth = 10}); }), HasSubstr("model.depth: 10; there are 9, 20 and 56"));
  EXPECT_THAT(ErrorOf([] { MakeResNetCifar({.width = -1}); }), HasSubstr("model.width"));
  EXPECT_THAT(ErrorOf([] { MakeDeepLabV3({.backbone = {.depth = 34}}); }), HasSubstr("50, 101 and 152"));
  EXPECT_THAT(ErrorOf([] { MakeDeepLabV3({.segmentation = {.classes = 3, .class_weights = {1, 2}}}); }),
              HasSubstr("model.class_weights: 2 of them, but the model has 3 classes"));
  EXPECT_THAT(ErrorOf([] { MakeUNet({.segmentation = {.cross_entropy_weight = 0}}); }), HasSubstr("not both 0"));
  EXPECT_THAT(ErrorOf([] { MakeUNet({.widths = {4}}); }), HasSubstr("model.widths: 1 of them"));
  EXPECT_THAT(ErrorOf([] { MakeEfficientNet({.width_mult = 0}); }), HasSubstr("model.width_mult: 0"));
  EXPECT_THAT(ErrorOf([] { MakeEfficientNet({.dropout = 1}); }), HasSubstr("model.dropout: 1"));
}

TEST(VisionErrors, NameTheData) {
  const auto of = [](const std::string& name, const at::Tensor& inputs, const at::Tensor& targets) {
    return ErrorOf([&] {
      const auto model = GoldenOf(name).make();
      Batch batch;
      batch.inputs = inputs;
      batch.targets = targets;
      batch.num_samples = inputs.size(0);
      model->loss(model->forward(batch), batch);
    });
  };
  const at::Tensor labels = torch::zeros({2}, torch::kInt64);
  EXPECT_THAT(of("resnet18", torch::zeros({2, 1, 40, 40}), labels), HasSubstr("model.in_channels: the model takes"));
  EXPECT_THAT(of("resnet18", torch::zeros({2, 3, 40, 40}, torch::kUInt8), labels), HasSubstr("to_float"));
  EXPECT_THAT(of("resnet18", torch::zeros({2, 3, 40, 40}), labels + 5), HasSubstr("has 5 classes"));
  EXPECT_THAT(of("resnet9", torch::zeros({2, 3, 7, 9}), labels), HasSubstr("8 x 8 pixels, not 7 x 9"));
  EXPECT_THAT(of("efficientnet", torch::zeros({2, 3}), labels), HasSubstr("model.in_channels"));
  EXPECT_THAT(of("unet", torch::zeros({2, 3, 3, 8}), labels), HasSubstr("at least 4 x 4 pixels, not 3 x 8"));
  EXPECT_THAT(of("unet", torch::zeros({2, 3, 8, 8}), labels), HasSubstr("need targets int64 [B, H, W]"));
  const at::Tensor classes = torch::full({2, 8, 8}, 7, torch::kInt64);
  EXPECT_THAT(of("unet", torch::zeros({2, 3, 8, 8}), classes), HasSubstr("5 classes and ignore_index -1"));
  EXPECT_THAT(of("deeplabv3", torch::zeros({1, 3, 32, 32}), torch::zeros({1, 32, 32}, torch::kInt64)),
              HasSubstr("at least 2 pictures"));
}

// The sum of both with their factors; pixels that do not count have no effect on either.
TEST(SegmentationLoss, JoinsCrossEntropyAndDice) {
  const auto loss_of = [](double entropy, double dice, const std::vector<double>& weights, const Batch& batch) {
    const auto model = MakeUNet({.segmentation = {.classes = 3,
                                                  .cross_entropy_weight = entropy,
                                                  .dice_weight = dice,
                                                  .class_weights = weights,
                                                  .ignore_index = 9},
                                 .channels = 1,
                                 .widths = {2, 3}});
    return model->loss(batch.inputs, batch);  // the inputs serve as logits
  };
  Batch batch;
  batch.inputs = BatchOfGolden("unet").inputs;  // [2, 3, 17, 22]
  batch.targets = BatchOfGolden("unet").targets.remainder(3);
  batch.targets[1].fill_(9);
  batch.num_samples = 2;
  Batch first = batch.Slice(0, 1);
  const Loss both = loss_of(0.5, 2, {}, batch);
  ASSERT_EQ(both.parts.size(), 3u);
  const double entropy = loss_of(1, 0, {}, first).total.item<double>();
  const double dice = loss_of(0, 1, {}, first).total.item<double>();
  EXPECT_NEAR(both.total.item<double>(), 0.5 * entropy + 2 * dice, 1e-5);
  EXPECT_NEAR(loss_of(1, 0, {2, 2, 2}, first).total.item<double>(), entropy, 1e-5);
  EXPECT_GT(std::abs(loss_of(1, 0, {5, 1, 1}, first).total.item<double>() - entropy), 1e-4);
}

// In training a sample's branch is left out or scaled up, so that the mean stays; in evaluation it is whole.
TEST(EfficientNet, LeavesOutBranchesOfSamples) {
  torch::manual_seed(3);
  const auto model = MakeEfficientNet({.classes = 2, .width_mult = 0.1, .depth_mult = 0.3, .stochastic_depth = 0.9});
  const Batch batch = BatchOfGolden("efficientnet");
  const torch::NoGradGuard no_grad;
  const at::Tensor one = model->forward(batch).tensor(), other = model->forward(batch).tensor();
  EXPECT_FALSE(one.equal(other));
  model->eval();
  EXPECT_TRUE(model->forward(batch).tensor().equal(model->forward(batch).tensor()));
}

}  // namespace
}  // namespace composer
