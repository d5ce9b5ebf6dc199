// SPDX-License-Identifier: Apache-2.0
#include "trainer/data/images/pixel_transforms.h"

#include <torch/types.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "data/image/colour.h"
#include "data/image/decode.h"
#include "data/image/resample.h"
#include "trainer/data/images/of_pixels.h"

namespace composer {
namespace {

class Decode final : public SampleTransform {
 public:
  explicit Decode(DecodeImageOptions options) : options_(std::move(options)) {}
  void Apply(Sample& sample, SampleRandom& /*random*/) const override {
    const auto file = sample.texts.find(options_.key);
    TORCH_CHECK_VALUE(file != sample.texts.end(), "decode_image: the sample has no text `", options_.key, "`");
    absl::StatusOr<Pixels> image = DecodeImage(file->second, options_.channels);
    const auto path = sample.texts.find("path");
    TORCH_CHECK_VALUE(image.ok(),
                      "decode_image: ", path == sample.texts.end() ? "`" + options_.key + "`" : path->second, ": ",
                      std::string(image.status().message()));
    sample.texts.erase("path");
    sample.texts.erase(options_.key);
    sample.tensors["inputs"] = TensorOfImage(*std::move(image));
  }

 private:
  const DecodeImageOptions options_;
};

struct Box {
  int64_t top = 0, left = 0, height = 0, width = 0;
};

// Rounded as Python rounds.
int64_t Nearest(double value) { return static_cast<int64_t>(std::nearbyint(value)); }

Box Middle(const PixelView& image, int64_t height, int64_t width) {
  return {Nearest(static_cast<double>(image.height - height) / 2),
          Nearest(static_cast<double>(image.width - width) / 2), height, width};
}

Box DrawBox(const PixelView& image, const RandomResizedCropOptions& options, SampleRandom& random) {
  const auto height = static_cast<double>(image.height), width = static_cast<double>(image.width);
  for (int attempt = 0; attempt < 10; ++attempt) {
    const double area = height * width * random.Uniform(options.least_scale, options.most_scale);
    const double ratio = std::exp(random.Uniform(std::log(options.least_ratio), std::log(options.most_ratio)));
    const int64_t w = Nearest(std::sqrt(area * ratio)), h = Nearest(std::sqrt(area / ratio));
    if (w < 1 || h < 1 || w > image.width || h > image.height) continue;
    const int64_t top = random.Below(image.height - h + 1);
    return {top, random.Below(image.width - w + 1), h, w};
  }
  int64_t w = image.width, h = image.height;
  if (width / height < options.least_ratio) h = std::max<int64_t>(1, Nearest(width / options.least_ratio));
  if (width / height > options.most_ratio) w = std::max<int64_t>(1, Nearest(height * options.most_ratio));
  const Box middle = Middle(image, h, w);
  return {middle.top, middle.left, h, w};
}

Pixels CropTo(const PixelView& image, const Box& box) { return Crop(image, box.top, box.left, box.height, box.width); }

Pixels Jitter(const PixelView& view, const ColorJitterOptions& options, SampleRandom& random) {
  std::array<int, 4> order = {0, 1, 2, 3};
  for (int64_t i = 3; i > 0; --i) std::swap(order[i], order[random.Below(i + 1)]);
  Pixels image(view);
  const auto factor = [&](double most) { return random.Uniform(std::max(0.0, 1 - most), 1 + most); };
  for (const int what : order) {
    if (what == 0 && options.brightness > 0) image = AdjustBrightness(image.view(), factor(options.brightness));
    if (what == 1 && options.contrast > 0) image = AdjustContrast(image.view(), factor(options.contrast));
    if (what == 2 && options.saturation > 0) image = AdjustColour(image.view(), factor(options.saturation));
    if (what == 3 && options.hue > 0) image = ShiftHue(image.view(), random.Uniform(-options.hue, options.hue));
  }
  return image;
}

class ToFloat final : public EndsImageBytes {
 public:
  void Apply(Sample& sample, SampleRandom& /*random*/) const override {
    at::Tensor& image = ImageIn(sample, "to_float");
    TORCH_CHECK_VALUE(image.scalar_type() == at::kByte, "to_float: it takes images of bytes (uint8), got ",
                      c10::toString(image.scalar_type()));
    image = image.to(at::kFloat).div_(255);
  }
};

}  // namespace

SampleTransformPtr MakeDecodeImage(const DecodeImageOptions& options) {
  TORCH_CHECK_VALUE(options.channels == 1 || options.channels == 3 || options.channels == 4,
                    "decode_image: channels: must be 1, 3 or 4, got ", options.channels);
  return std::make_shared<const Decode>(options);
}

SampleTransformPtr MakeResizeShorterSide(int64_t size) {
  TORCH_CHECK_VALUE(size > 0, "resize: size: must be at least 1, got ", size);
  return OfPixels("resize", [size](const PixelView& image, SampleRandom&) {
    const auto longer = [&](int64_t side, int64_t shorter) {
      return static_cast<int64_t>(static_cast<double>(size * side) / static_cast<double>(shorter));
    };
    return image.width <= image.height ? Resize(image, longer(image.height, image.width), size)
                                       : Resize(image, size, longer(image.width, image.height));
  });
}

SampleTransformPtr MakeResize(int64_t height, int64_t width) {
  TORCH_CHECK_VALUE(height > 0 && width > 0, "resize: height and width: must be at least 1, got ", height, " and ",
                    width);
  return OfPixels("resize", [=](const PixelView& image, SampleRandom&) { return Resize(image, height, width); });
}

SampleTransformPtr MakeCenterCrop(int64_t size) {
  TORCH_CHECK_VALUE(size > 0, "center_crop: size: must be at least 1, got ", size);
  return OfPixels("center_crop", [size](const PixelView& image, SampleRandom&) {
    TORCH_CHECK_VALUE(size <= image.height && size <= image.width, "center_crop: size ", size,
                      " is larger than the image, ", image.height, " x ", image.width);
    return CropTo(image, Middle(image, size, size));
  });
}

SampleTransformPtr MakeRandomResizedCrop(const RandomResizedCropOptions& options) {
  TORCH_CHECK_VALUE(options.size > 0, "random_resized_crop: size: must be at least 1, got ", options.size);
  TORCH_CHECK_VALUE(0 < options.least_scale && options.least_scale <= options.most_scale && options.most_scale <= 1,
                    "random_resized_crop: scale: must be two rising numbers above 0 and up to 1, got ",
                    options.least_scale, " and ", options.most_scale);
  TORCH_CHECK_VALUE(0 < options.least_ratio && options.least_ratio <= options.most_ratio,
                    "random_resized_crop: ratio: must be two rising numbers above 0, got ", options.least_ratio,
                    " and ", options.most_ratio);
  return OfPixels("random_resized_crop", [options](const PixelView& image, SampleRandom& random) {
    return Resize(CropTo(image, DrawBox(image, options, random)).view(), options.size, options.size);
  });
}

SampleTransformPtr MakeColorJitter(const ColorJitterOptions& options) {
  TORCH_CHECK_VALUE(options.brightness >= 0 && options.contrast >= 0 && options.saturation >= 0,
                    "color_jitter: brightness, contrast and saturation: must be at least 0");
  TORCH_CHECK_VALUE(options.hue >= 0 && options.hue <= 0.5, "color_jitter: hue: must be from 0 to 0.5, got ",
                    options.hue);
  return OfPixels("color_jitter",
                  [options](const PixelView& image, SampleRandom& random) { return Jitter(image, options, random); });
}

SampleTransformPtr MakeGrayscale(int channels, double probability) {
  TORCH_CHECK_VALUE(channels == 1 || channels == 3, "grayscale: channels: must be 1 or 3, got ", channels);
  TORCH_CHECK_VALUE(channels == 3 ? probability >= 0 && probability <= 1 : probability == 1,
                    "grayscale: probability: must be from 0 to 1, and 1 with 1 channel; got ", probability);
  return OfPixels("grayscale", [=](const PixelView& image, SampleRandom& random) {
    Pixels pixels(image);
    return random.Chance(probability) ? WithChannels(WithChannels(std::move(pixels), 1), channels) : pixels;
  });
}

SampleTransformPtr MakeToFloat() { return std::make_shared<const ToFloat>(); }

}  // namespace composer
