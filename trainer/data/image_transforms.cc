// SPDX-License-Identifier: Apache-2.0
#include <torch/types.h>

#include <utility>

#include "trainer/data/transforms.h"

namespace composer {
namespace {

at::Tensor& ImageOf(Sample& sample) {
  const auto found = sample.tensors.find("inputs");
  TORCH_CHECK_VALUE(found != sample.tensors.end() && found->second.dim() == 3,
                    "`inputs` is not an image of channels, rows and columns");
  return found->second;
}

class RandomCrop final : public SampleTransform {
 public:
  RandomCrop(int64_t size, int64_t padding) : size_(size), padding_(padding) {}
  void Apply(Sample& sample, SampleRandom& random) const override {
    at::Tensor& image = ImageOf(sample);
    at::Tensor padded = padding_ > 0 ? at::constant_pad_nd(image, {padding_, padding_, padding_, padding_}) : image;
    const int64_t rows = padded.size(1) - size_, columns = padded.size(2) - size_;
    TORCH_CHECK_VALUE(rows >= 0 && columns >= 0, "random_crop: size ", size_, " is larger than the image, ",
                      image.size(1), " x ", image.size(2), ", with a padding of ", padding_);
    const int64_t top = random.Below(rows + 1), left = random.Below(columns + 1);
    image = padded.slice(1, top, top + size_).slice(2, left, left + size_);
  }

 private:
  const int64_t size_, padding_;
};

class RandomFlip final : public SampleTransform {
 public:
  explicit RandomFlip(double probability) : probability_(probability) {}
  void Apply(Sample& sample, SampleRandom& random) const override {
    at::Tensor& image = ImageOf(sample);
    if (random.Chance(probability_)) image = image.flip({2});
  }

 private:
  const double probability_;
};

class Normalize final : public EndsImageBytes {
 public:
  Normalize(std::vector<double> mean, std::vector<double> std) {
    TORCH_CHECK_VALUE(!mean.empty() && mean.size() == std.size(),
                      "normalize: mean and std need a number for each "
                      "channel; mean has ",
                      mean.size(), ", std ", std.size());
    for (const double value : std) TORCH_CHECK_VALUE(value > 0, "normalize: std: must be positive, got ", value);
    const auto channels = static_cast<int64_t>(mean.size());
    mean_ = torch::tensor(mean, at::kFloat).view({channels, 1, 1});
    std_ = torch::tensor(std, at::kFloat).view({channels, 1, 1});
  }
  void Apply(Sample& sample, SampleRandom& /*random*/) const override {
    at::Tensor& image = ImageOf(sample);
    TORCH_CHECK_VALUE(image.size(0) == mean_.size(0), "normalize: mean has ", mean_.size(0), " channels, the image ",
                      image.size(0));
    image = (image.to(at::kFloat) - mean_) / std_;
  }

 private:
  at::Tensor mean_, std_;
};

}  // namespace

SampleTransformPtr MakeRandomCrop(int64_t size, int64_t padding) {
  TORCH_CHECK_VALUE(size > 0 && padding >= 0, "random_crop: size must be at least 1 and padding at least 0, got ", size,
                    " and ", padding);
  return std::make_shared<const RandomCrop>(size, padding);
}

SampleTransformPtr MakeRandomFlip(double probability) {
  TORCH_CHECK_VALUE(probability >= 0 && probability <= 1, "random_flip: probability: must be from 0 to 1, got ",
                    probability);
  return std::make_shared<const RandomFlip>(probability);
}

SampleTransformPtr MakeNormalize(std::vector<double> mean, std::vector<double> std) {
  return std::make_shared<const Normalize>(std::move(mean), std::move(std));
}

}  // namespace composer
