// SPDX-License-Identifier: Apache-2.0
#include "job/data/image_rows.h"

#include "job/data/table_rows.h"
#include "trainer/data/images/image_sources.h"
#include "trainer/data/images/pixel_transforms.h"

namespace composer {
namespace {

constexpr int64_t kMaxSide = 1 << 14;

DataSplit SplitIn(ConfigMap& config) {
  return config.Choice("split", {"train", "test", "eval"}, "train") == "train" ? DataSplit::kTrain : DataSplit::kEval;
}

SourceFactory ReadImageFolder(ConfigMap config) {
  const ImageFolderOptions options{config.String("path"), config.String("classes", "")};
  return [options](const DataContext&) { return OpenImageFolder(options); };
}

SourceFactory ReadWebDataset(ConfigMap config) {
  WebDatasetOptions options;
  options.paths = config.StringList("path", {});
  if (options.paths.empty()) config.Reject("path", "required");
  options.target = config.String("target", options.target);
  options.cache = ReadFetchOptions(config);
  return [options](const DataContext& context) { return OpenWebDataset(options, context.open_store); };
}

SourceFactory ReadMnist(ConfigMap config) {
  const std::string path = config.String("path");
  return [path, split = SplitIn(config)](const DataContext&) { return OpenMnist(path, split); };
}

SourceFactory ReadCifar10(ConfigMap config) {
  const std::string path = config.String("path");
  return [path, split = SplitIn(config)](const DataContext&) { return OpenCifar10(path, split); };
}

TransformFactory ReadDecodeImage(ConfigMap config) {
  DecodeImageOptions options;
  options.key = config.String("key", options.key);
  options.channels = static_cast<int>(config.Int("channels", options.channels, {.min = 1, .max = 4}));
  if (options.channels == 2) config.Reject("channels", "must be 1, 3 or 4");
  return [options](const DataContext&) { return MakeDecodeImage(options); };
}

TransformFactory ReadResize(ConfigMap config) {
  const int64_t size = config.Int("size", 0, {.min = 0, .max = kMaxSide});
  const int64_t height = config.Int("height", 0, {.min = 0, .max = kMaxSide}),
                width = config.Int("width", 0, {.min = 0, .max = kMaxSide});
  if (size > 0 ? height > 0 || width > 0 : height == 0 || width == 0)
    config.Reject("", "give size, of the shorter side, or height and width");
  return [=](const DataContext&) { return size > 0 ? MakeResizeShorterSide(size) : MakeResize(height, width); };
}

TransformFactory ReadCenterCrop(ConfigMap config) {
  const int64_t size = config.RequiredInt("size", {.min = 1, .max = kMaxSide});
  return [size](const DataContext&) { return MakeCenterCrop(size); };
}

// Reads two rising numbers.
void ReadRange(ConfigMap& config, const char* key, double most, double& least_read, double& most_read) {
  const std::vector<double> range = config.DoubleList(key, {least_read, most_read}, {.min = 0, .max = most});
  if (range.size() != 2 || range[0] <= 0 || range[0] > range[1]) {
    config.Reject(key, "must be two rising numbers above 0");
    return;
  }
  least_read = range[0];
  most_read = range[1];
}

TransformFactory ReadRandomResizedCrop(ConfigMap config) {
  RandomResizedCropOptions options;
  options.size = config.RequiredInt("size", {.min = 1, .max = kMaxSide});
  ReadRange(config, "scale", 1, options.least_scale, options.most_scale);
  ReadRange(config, "ratio", 1000, options.least_ratio, options.most_ratio);
  return [options](const DataContext&) { return MakeRandomResizedCrop(options); };
}

TransformFactory ReadColorJitter(ConfigMap config) {
  ColorJitterOptions options;
  options.brightness = config.Double("brightness", 0, {.min = 0});
  options.contrast = config.Double("contrast", 0, {.min = 0});
  options.saturation = config.Double("saturation", 0, {.min = 0});
  options.hue = config.Double("hue", 0, {.min = 0, .max = 0.5});
  return [options](const DataContext&) { return MakeColorJitter(options); };
}

TransformFactory ReadGrayscale(ConfigMap config) {
  const auto channels = static_cast<int>(config.Int("channels", 1, {.min = 1, .max = 3}));
  const double probability = config.Double("probability", 1, {.min = 0, .max = 1});
  if (channels == 2) config.Reject("channels", "must be 1 or 3");
  if (channels == 1 && probability != 1) config.Reject("probability", "must be 1 with 1 channel");
  return [=](const DataContext&) { return MakeGrayscale(channels, probability); };
}

TransformFactory ReadToFloat(ConfigMap /*config*/) {
  return [](const DataContext&) { return MakeToFloat(); };
}

}  // namespace

std::vector<SourceRow> ImageSourceRows() {
  return {{"cifar10", ReadCifar10},
          {"image_folder", ReadImageFolder},
          {"mnist", ReadMnist},
          {"webdataset", ReadWebDataset}};
}

std::vector<TransformRow> ImageTransformRows() {
  return {{"center_crop", ReadCenterCrop},
          {"color_jitter", ReadColorJitter},
          {"decode_image", ReadDecodeImage},
          {"grayscale", ReadGrayscale},
          {"random_resized_crop", ReadRandomResizedCrop},
          {"resize", ReadResize},
          {"to_float", ReadToFloat}};
}

}  // namespace composer
