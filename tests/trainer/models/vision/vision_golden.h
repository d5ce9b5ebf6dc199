// What torchvision computes with small models for pictures: tests/golden/vision (tools/make_vision_goldens.py).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>
#include <torch/nn/module.h>
#include <torch/types.h>

#include <map>
#include <string>

#include "checkpoint/tools/weight_files.h"
#include "trainer/core/model.h"
#include "trainer/layers/undeferred_scope.h"
#include "trainer/models/vision/deeplabv3.h"
#include "trainer/models/vision/efficientnet.h"
#include "trainer/models/vision/resnet.h"
#include "trainer/models/vision/resnet_cifar.h"
#include "trainer/models/vision/unet.h"

namespace composer {

using TensorsByName = std::map<std::string, at::Tensor>;

inline std::string WeightsOfGolden(const std::string& name) {
  return "tests/golden/vision/" + name + (name == "resnet18" ? "/model.pth" : "/model.safetensors");
}

inline TensorsByName ReadTensors(const std::string& path) {
  const UndeferredScope files;
  const auto read = ReadWeights(path, "");
  EXPECT_TRUE(read.ok()) << read.status();
  return {read->tensors.begin(), read->tensors.end()};
}

inline TensorsByName ParametersAndBuffers(const torch::nn::Module& model) {
  TensorsByName all;
  for (const auto& list : {model.named_parameters(), model.named_buffers()}) {
    for (const auto& item : list) all[item.key()] = item.value();
  }
  return all;
}

struct VisionGolden {
  std::function<std::shared_ptr<Model>()> make;  // with drawn values
  std::vector<int64_t> pictures;
  bool by_pixel = false;
};

inline VisionGolden GoldenOf(const std::string& name) {
  constexpr int64_t kClasses = 5;
  if (name == "resnet18" || name == "resnet50") {
    const ResNetOptions options{.depth = name == "resnet18" ? 18 : 50, .classes = kClasses, .width = 2};
    return {[=] { return MakeResNet(options); }, {4, 3, 40, 40}};
  }
  if (name == "resnet9" || name == "resnet20") {
    const bool nine = name == "resnet9";
    const ResNetCifarOptions options{.depth = nine ? 9 : 20, .classes = kClasses, .width = nine ? 4 : 2};
    return {[=] { return MakeResNetCifar(options); }, {4, 3, 16, 16}};
  }
  if (name == "efficientnet") {
    const EfficientNetOptions options{
        .classes = kClasses, .width_mult = 0.1, .depth_mult = 0.3, .dropout = 0, .stochastic_depth = 0};
    return {[=] { return MakeEfficientNet(options); }, {4, 3, 64, 64}};
  }
  if (name == "deeplabv3") {
    const DeepLabV3Options options{.backbone = {.depth = 50, .width = 2},
                                   .segmentation = {.classes = kClasses},
                                   .head_width = 4,
                                   .atrous_rates = {2, 4},
                                   .dropout = 0};
    return {[=] { return MakeDeepLabV3(options); }, {2, 3, 33, 41}, true};
  }
  const UNetOptions options{.segmentation = {.classes = kClasses}, .widths = {4, 6, 8}};
  return {[=] { return MakeUNet(options); }, {2, 3, 17, 22}, true};
}

// Returns the model with the golden's weights, each of which it must have.
inline std::shared_ptr<Model> LoadVisionGolden(const std::string& name) {
  const std::shared_ptr<Model> model = GoldenOf(name).make();
  const torch::NoGradGuard no_grad;
  const TensorsByName own = ParametersAndBuffers(*model), read = ReadTensors(WeightsOfGolden(name));
  EXPECT_EQ(own.size(), read.size());
  for (const auto& [key, tensor] : own) {
    const auto found = read.find(key);
    if (found == read.end() || found->second.sizes() != tensor.sizes()) {
      ADD_FAILURE() << name << " lacks " << key << " " << tensor.sizes();
      continue;
    }
    at::Tensor(tensor).copy_(found->second);
  }
  return model;
}

inline Batch BatchOfGolden(const std::string& name) {
  const VisionGolden golden = GoldenOf(name);
  int64_t values = 1;
  for (const int64_t size : golden.pictures) values *= size;
  Batch batch;
  batch.num_samples = golden.pictures[0];
  const at::Tensor places = torch::arange(values, torch::kInt64);
  batch.inputs = ((places * 7919).remainder(1009).to(torch::kFloat) / 504 - 1).view(golden.pictures);
  if (golden.by_pixel) {
    const int64_t rows = golden.pictures[2], columns = golden.pictures[3];
    const at::Tensor pixels = torch::arange(batch.num_samples * rows * columns, torch::kInt64);
    batch.targets = ((pixels * 31).remainder(1009).remainder(6) - 1).view({batch.num_samples, rows, columns});
  } else {
    batch.targets = torch::arange(batch.num_samples, torch::kInt64).remainder(5);
  }
  return batch;
}

// |a - b| / |b|.
inline double RelativeDifferenceOf(const at::Tensor& a, const at::Tensor& b) {
  if (a.sizes() != b.sizes()) return INFINITY;
  const at::Tensor x = a.detach().to(at::kDouble), y = b.detach().to(at::kDouble);
  return ((x - y).norm() / y.norm()).item<double>();
}

inline const char* const kVisionGoldens[] = {"resnet18",     "resnet50",  "resnet9", "resnet20",
                                             "efficientnet", "deeplabv3", "unet"};

}  // namespace composer
