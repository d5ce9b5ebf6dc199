// SPDX-License-Identifier: Apache-2.0
#include "trainer/callbacks/output/image_tensors.h"

#include <torch/types.h>

#include <algorithm>
#include <array>

namespace composer {
namespace {

using Colour = std::array<uint8_t, 3>;
// Source: Sasha Trubetskoy, "List of 20 Simple, Distinct Colors".
constexpr std::array<Colour, 20> kPalette = {{{230, 25, 75},  {60, 180, 75},   {255, 225, 25}, {0, 130, 200},
                                              {245, 130, 48}, {145, 30, 180},  {70, 240, 240}, {240, 50, 230},
                                              {210, 245, 60}, {250, 190, 212}, {0, 128, 128},  {220, 190, 255},
                                              {170, 110, 40}, {255, 250, 200}, {128, 0, 0},    {170, 255, 195},
                                              {128, 128, 0},  {255, 215, 180}, {0, 0, 128},    {128, 128, 128}}};

Colour ColourOf(int64_t label) {
  if (label < 0) return {255, 255, 255};
  if (label == 0) return {0, 0, 0};
  return kPalette[static_cast<size_t>(label - 1) % kPalette.size()];
}

at::Tensor ToBytes(const at::Tensor& images) {
  if (images.scalar_type() == at::kByte) return images;
  at::Tensor values = images.to(at::kFloat).nan_to_num(0, 0, 0);
  const double least = values.min().item<double>(), most = values.max().item<double>();
  if (least < 0 || most > 1) values = (values - least) / std::max(most - least, 1e-12);
  return values.mul(255).round().clamp(0, 255).to(at::kByte);
}

Image ToImage(const at::Tensor& rows) {
  Image image;
  image.height = static_cast<int>(rows.size(0));
  image.width = static_cast<int>(rows.size(1));
  image.channels = static_cast<int>(rows.size(2));
  const at::Tensor bytes = rows.contiguous();
  const auto* data = static_cast<const uint8_t*>(bytes.const_data_ptr());
  image.pixels.assign(data, data + bytes.numel());
  return image;
}

}  // namespace

bool IsImageBatch(const at::Tensor& batch) {
  return batch.defined() && (batch.dim() == 3 || batch.dim() == 4) && batch.numel() > batch.size(0) &&
         !batch.is_complex();
}

std::vector<Image> ImagesOf(const at::Tensor& batch, int64_t limit, bool channels_last) {
  const torch::NoGradGuard no_grad;
  at::Tensor shown = batch.detach().slice(0, 0, std::min(limit, batch.size(0)));
  if (shown.dim() == 3) shown = shown.unsqueeze(channels_last ? 3 : 1);
  if (!channels_last) shown = shown.permute({0, 2, 3, 1});
  if (shown.size(3) != 3) shown = shown.slice(3, 0, 1);
  const at::Tensor bytes = ToBytes(shown.to(at::kCPU));
  std::vector<Image> images;
  for (int64_t i = 0; i < bytes.size(0); ++i) images.push_back(ToImage(bytes[i]));
  return images;
}

std::vector<Image> MasksOf(const at::Tensor& classes, int64_t limit) {
  const torch::NoGradGuard no_grad;
  const at::Tensor labels =
      classes.detach().slice(0, 0, std::min(limit, classes.size(0))).to(at::kCPU, at::kLong).contiguous();
  std::vector<Image> images;
  const auto* label = static_cast<const int64_t*>(labels.const_data_ptr());
  for (int64_t i = 0; i < labels.size(0); ++i) {
    Image image{static_cast<int>(labels.size(1)), static_cast<int>(labels.size(2)), 3, {}};
    for (int64_t pixel = 0; pixel < labels.size(1) * labels.size(2); ++pixel) {
      const Colour colour = ColourOf(*label++);
      image.pixels.insert(image.pixels.end(), colour.begin(), colour.end());
    }
    images.push_back(std::move(image));
  }
  return images;
}

}  // namespace composer
