// SPDX-License-Identifier: Apache-2.0
#include "trainer/data/images/tone_transforms.h"

#include <torch/types.h>

#include <cmath>
#include <utility>

#include "trainer/data/images/of_pixels.h"

namespace composer {
namespace {

// fn(image, random) gives another image [C, H, W].
template <typename Fn>
class ImageTransform final : public SampleTransform {
 public:
  ImageTransform(const char* name, Fn fn) : name_(name), fn_(std::move(fn)) {}
  void Apply(Sample& sample, SampleRandom& random) const override {
    at::Tensor& image = ImageIn(sample, name_);
    image = fn_(image, random);
  }

 private:
  const char* const name_;
  const Fn fn_;
};

template <typename Fn>
SampleTransformPtr OfImages(const char* name, Fn fn) {
  return std::make_shared<const ImageTransform<Fn>>(name, std::move(fn));
}

void CheckProbability(const char* who, double probability) {
  TORCH_CHECK_VALUE(probability >= 0 && probability <= 1, who, ": probability: must be from 0 to 1, got ", probability);
}

at::Tensor Erased(const at::Tensor& image, const RandomErasingOptions& options, SampleRandom& random) {
  const int64_t height = image.size(1), width = image.size(2);
  for (int attempt = 0; attempt < 10; ++attempt) {
    const double area = static_cast<double>(height * width) * random.Uniform(options.scale.least, options.scale.most);
    const double ratio = std::exp(random.Uniform(std::log(options.ratio.least), std::log(options.ratio.most)));
    const auto h = static_cast<int64_t>(std::nearbyint(std::sqrt(area * ratio))),
               w = static_cast<int64_t>(std::nearbyint(std::sqrt(area / ratio)));
    if (h >= height || w >= width) continue;
    const int64_t top = random.Below(height - h + 1), left = random.Below(width - w + 1);
    at::Tensor erased = image.clone();
    erased.slice(1, top, top + h).slice(2, left, left + w).fill_(options.value);
    return erased;
  }
  return image;
}

}  // namespace

SampleTransformPtr MakeRandomTone(const char* name, const DrawnOperation& operation, double probability) {
  CheckProbability(name, probability);
  return OfPixels(name, [=](const PixelView& image, SampleRandom& random) {
    return random.Chance(probability) ? Apply(operation, image) : Pixels(image);
  });
}

SampleTransformPtr MakeRandomErasing(const RandomErasingOptions& options) {
  CheckProbability("random_erasing", options.probability);
  TORCH_CHECK_VALUE(0 <= options.scale.least && options.scale.least <= options.scale.most && options.scale.most <= 1,
                    "random_erasing: scale: must be two rising numbers from 0 to 1, got ", options.scale.least, " and ",
                    options.scale.most);
  TORCH_CHECK_VALUE(0 < options.ratio.least && options.ratio.least <= options.ratio.most,
                    "random_erasing: ratio: must be two rising numbers above 0, got ", options.ratio.least, " and ",
                    options.ratio.most);
  return OfImages("random_erasing", [=](const at::Tensor& image, SampleRandom& random) {
    return random.Chance(options.probability) ? Erased(image, options, random) : image;
  });
}

SampleTransformPtr MakeRandomVerticalFlip(double probability) {
  CheckProbability("random_vertical_flip", probability);
  return OfImages("random_vertical_flip", [=](const at::Tensor& image, SampleRandom& random) {
    return random.Chance(probability) ? image.flip({1}) : image;
  });
}

SampleTransformPtr MakePad(int64_t padding, double value) {
  TORCH_CHECK_VALUE(padding >= 0, "pad: padding: must be at least 0, got ", padding);
  return OfImages("pad", [=](const at::Tensor& image, SampleRandom& /*random*/) {
    return at::constant_pad_nd(image, {padding, padding, padding, padding}, value);
  });
}

}  // namespace composer
