// SPDX-License-Identifier: Apache-2.0
#include "job/models/vision_rows.h"

#include <utility>

#include "base/status_macros.h"
#include "trainer/core/torch_status.h"
#include "trainer/models/initializers.h"
#include "trainer/models/vision/deeplabv3.h"
#include "trainer/models/vision/efficientnet.h"
#include "trainer/models/vision/resnet.h"
#include "trainer/models/vision/resnet_cifar.h"
#include "trainer/models/vision/unet.h"

namespace composer {
namespace {

constexpr IntRange kCount = {.min = 1, .max = 1 << 16};
constexpr DoubleRange kFraction = {.min = 0, .max = 0.99};

// The model that `make` gives, with the first values that `initializers` say.
template <typename Options>
ModelFactory WithInitializers(ConfigMap& config, std::shared_ptr<Model> (*make)(const Options&), Options options) {
  return [make, options = std::move(options), names = config.StringList("initializers", {})] {
    std::shared_ptr<Model> model = make(options);
    ThrowIfError(Annotate(InitializeModel(names, *model), "model.initializers"));
    return model;
  };
}

ResNetOptions ReadResNetOptions(ConfigMap& config, ResNetOptions options) {
  options.depth = config.Int("depth", options.depth, kCount);
  options.channels = config.Int("in_channels", options.channels, kCount);
  options.width = config.Int("width", options.width, kCount);
  options.groups = config.Int("groups", options.groups, kCount);
  options.width_per_group = config.Int("width_per_group", options.width_per_group, kCount);
  options.zero_init_residual = config.Bool("zero_init_residual", options.zero_init_residual);
  options.image_size = config.Int("image_size", options.image_size, kCount);
  return options;
}

ModelFactory ReadResNet(ConfigMap config) {
  ResNetOptions options = ReadResNetOptions(config, {});
  options.classes = config.Int("num_classes", options.classes, kCount);
  return WithInitializers(config, MakeResNet, options);
}

ModelFactory ReadResNetCifar(ConfigMap config) {
  ResNetCifarOptions options;
  options.depth = config.Int("depth", options.depth, kCount);
  options.classes = config.Int("num_classes", options.classes, kCount);
  options.channels = config.Int("in_channels", options.channels, kCount);
  options.width = config.Int("width", options.width, {.min = 0, .max = kCount.max});
  options.image_size = config.Int("image_size", options.image_size, kCount);
  return WithInitializers(config, MakeResNetCifar, options);
}

ModelFactory ReadEfficientNet(ConfigMap config) {
  constexpr DoubleRange kFactor = {.min = 0.01, .max = 16};
  EfficientNetOptions options;
  options.classes = config.Int("num_classes", options.classes, kCount);
  options.channels = config.Int("in_channels", options.channels, kCount);
  options.width_mult = config.Double("width_mult", options.width_mult, kFactor);
  options.depth_mult = config.Double("depth_mult", options.depth_mult, kFactor);
  options.dropout = config.Double("dropout", options.dropout, kFraction);
  options.stochastic_depth = config.Double("stochastic_depth", options.stochastic_depth, kFraction);
  options.image_size = config.Int("image_size", options.image_size, kCount);
  return WithInitializers(config, MakeEfficientNet, options);
}

SegmentationOptions ReadSegmentation(ConfigMap& config, SegmentationOptions options) {
  options.classes = config.Int("num_classes", options.classes, kCount);
  options.cross_entropy_weight = config.Double("cross_entropy_weight", options.cross_entropy_weight, {.min = 0});
  options.dice_weight = config.Double("dice_weight", options.dice_weight, {.min = 0});
  options.class_weights = config.DoubleList("class_weights", {}, {.min = 0});
  options.ignore_index = config.Int("ignore_index", options.ignore_index, {.min = -(1 << 16), .max = 1 << 16});
  return options;
}

ModelFactory ReadDeepLabV3(ConfigMap config) {
  DeepLabV3Options options;
  options.backbone = ReadResNetOptions(config, options.backbone);
  options.segmentation = ReadSegmentation(config, {});
  options.head_width = config.Int("head_width", options.head_width, kCount);
  options.atrous_rates = config.IntList("atrous_rates", options.atrous_rates, kCount);
  options.dropout = config.Double("dropout", options.dropout, kFraction);
  return WithInitializers(config, MakeDeepLabV3, options);
}

ModelFactory ReadUNet(ConfigMap config) {
  UNetOptions options;
  options.segmentation = ReadSegmentation(config, options.segmentation);
  options.channels = config.Int("in_channels", options.channels, kCount);
  options.widths = config.IntList("widths", options.widths, kCount);
  options.image_size = config.Int("image_size", options.image_size, kCount);
  return WithInitializers(config, MakeUNet, options);
}

}  // namespace

std::vector<ModelRow> VisionModelRows() {
  return {{"deeplabv3", ReadDeepLabV3},
          {"efficientnet", ReadEfficientNet},
          {"resnet", ReadResNet},
          {"resnet_cifar", ReadResNetCifar},
          {"unet", ReadUNet}};
}

}  // namespace composer
