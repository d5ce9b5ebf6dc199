// SPDX-License-Identifier: Apache-2.0
#include "job/data/image_rows.h"

#include "job/data/table_rows.h"
#include "trainer/data/images/image_sources.h"
#include "trainer/data/images/pixel_transforms.h"
#include "trainer/data/images/tone_transforms.h"
#include "trainer/data/images/warp_transforms.h"

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

double ReadProbability(ConfigMap& config) { return config.Double("probability", 0.5, {.min = 0, .max = 1}); }

Sampling ReadSampling(ConfigMap& config, const char* fallback) {
  return config.Choice("interpolation", {"nearest", "bilinear"}, fallback) == "nearest" ? Sampling::kNearest
                                                                                        : Sampling::kBilinear;
}

// One number x means from -x to x.
NumberRange ReadAngles(ConfigMap& config, const char* key, double most) {
  const std::vector<double> angles = config.DoubleList(key, {0, 0}, {.min = -most, .max = most});
  if (angles.size() == 1 && angles[0] >= 0) return {-angles[0], angles[0]};
  if (angles.size() == 2 && angles[0] <= angles[1]) return {angles[0], angles[1]};
  config.Reject(key, "must be two rising numbers, or one that is at least 0");
  return {};
}

TransformFactory ReadRandomRotation(ConfigMap config) {
  const NumberRange degrees = ReadAngles(config, "degrees", 360);
  if (!config.Has("degrees")) config.Reject("degrees", "required");
  const Sampling sampling = ReadSampling(config, "nearest");
  return [=](const DataContext&) { return MakeRandomRotation(degrees, sampling); };
}

TransformFactory ReadRandomAffine(ConfigMap config) {
  RandomAffineOptions options;
  options.degrees = ReadAngles(config, "degrees", 360);
  const std::vector<double> translate = config.DoubleList("translate", {0, 0}, {.min = 0, .max = 1});
  if (translate.size() == 2) {
    options.translate_x = translate[0];
    options.translate_y = translate[1];
  } else {
    config.Reject("translate", "must be two numbers: of the width, and of the height");
  }
  ReadRange(config, "scale", 1000, options.scale.least, options.scale.most);
  options.shear_x = ReadAngles(config, "shear", 89);
  options.shear_y = ReadAngles(config, "shear_y", 89);
  options.sampling = ReadSampling(config, "nearest");
  return [=](const DataContext&) { return MakeRandomAffine(options); };
}

TransformFactory ReadRandomPerspective(ConfigMap config) {
  const double distortion = config.Double("distortion_scale", 0.5, {.min = 0, .max = 1});
  const double probability = ReadProbability(config);
  const Sampling sampling = ReadSampling(config, "bilinear");
  return [=](const DataContext&) { return MakeRandomPerspective(distortion, probability, sampling); };
}

TransformFactory ReadGaussianBlur(ConfigMap config) {
  const int64_t side = config.RequiredInt("kernel_size", {.min = 1, .max = 1023});
  NumberRange sigma = {0.1, 2};
  ReadRange(config, "sigma", 1000, sigma.least, sigma.most);
  if (side % 2 == 0) config.Reject("kernel_size", "must be odd");
  return [=](const DataContext&) { return MakeGaussianBlur(side, sigma); };
}

TransformFactory ReadTone(ConfigMap& config, const char* name, ImageOperation operation, double strength) {
  const double probability = ReadProbability(config);
  return [=](const DataContext&) { return MakeRandomTone(name, {operation, strength}, probability); };
}
TransformFactory ReadRandomAutocontrast(ConfigMap config) {
  return ReadTone(config, "random_autocontrast", ImageOperation::kAutocontrast, 0);
}
TransformFactory ReadRandomEqualize(ConfigMap config) {
  return ReadTone(config, "random_equalize", ImageOperation::kEqualize, 0);
}
TransformFactory ReadRandomInvert(ConfigMap config) {
  return ReadTone(config, "random_invert", ImageOperation::kSolarize, 0);
}
TransformFactory ReadRandomPosterize(ConfigMap config) {
  const auto bits = static_cast<double>(config.RequiredInt("bits", {.min = 0, .max = 8}));
  return ReadTone(config, "random_posterize", ImageOperation::kPosterize, bits);
}
TransformFactory ReadRandomSolarize(ConfigMap config) {
  const auto threshold = static_cast<double>(config.RequiredInt("threshold", {.min = 0, .max = 256}));
  return ReadTone(config, "random_solarize", ImageOperation::kSolarize, threshold);
}
TransformFactory ReadRandomSharpness(ConfigMap config) {
  const double factor = config.Double("sharpness_factor", 2, {.min = 0});
  return ReadTone(config, "random_adjust_sharpness", ImageOperation::kSharpness, factor);
}

TransformFactory ReadRandomErasing(ConfigMap config) {
  RandomErasingOptions options;
  options.probability = ReadProbability(config);
  ReadRange(config, "scale", 1, options.scale.least, options.scale.most);
  ReadRange(config, "ratio", 1000, options.ratio.least, options.ratio.most);
  options.value = config.Double("value", 0);
  return [=](const DataContext&) { return MakeRandomErasing(options); };
}

TransformFactory ReadRandomVerticalFlip(ConfigMap config) {
  const double probability = ReadProbability(config);
  return [=](const DataContext&) { return MakeRandomVerticalFlip(probability); };
}

TransformFactory ReadPadTransform(ConfigMap config) {
  const int64_t padding = config.RequiredInt("padding", {.min = 0, .max = kMaxSide});
  const double fill = config.Double("fill", 0);
  return [=](const DataContext&) { return MakePad(padding, fill); };
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
          {"gaussian_blur", ReadGaussianBlur},
          {"grayscale", ReadGrayscale},
          {"pad", ReadPadTransform},
          {"random_adjust_sharpness", ReadRandomSharpness},
          {"random_affine", ReadRandomAffine},
          {"random_autocontrast", ReadRandomAutocontrast},
          {"random_equalize", ReadRandomEqualize},
          {"random_erasing", ReadRandomErasing},
          {"random_invert", ReadRandomInvert},
          {"random_perspective", ReadRandomPerspective},
          {"random_posterize", ReadRandomPosterize},
          {"random_resized_crop", ReadRandomResizedCrop},
          {"random_rotation", ReadRandomRotation},
          {"random_solarize", ReadRandomSolarize},
          {"random_vertical_flip", ReadRandomVerticalFlip},
          {"resize", ReadResize},
          {"to_float", ReadToFloat}};
}

}  // namespace composer
