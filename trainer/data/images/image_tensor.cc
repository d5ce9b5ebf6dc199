// SPDX-License-Identifier: Apache-2.0
#include "trainer/data/images/image_tensor.h"

#include <torch/types.h>

#include <utility>

namespace composer {

at::Tensor TensorOfImage(Pixels image) {
  auto* const owned = new Pixels(std::move(image));  // the tensor's deleter deletes it
  return torch::from_blob(
      owned->bytes.data(), {owned->channels, owned->height, owned->width}, {1, owned->view().stride(), owned->channels},
      [owned](void*) { delete owned; }, at::kByte);
}

ImageBytes BytesOfImage(const at::Tensor& image, absl::string_view who) {
  TORCH_CHECK_VALUE(image.defined() && image.dim() == 3 && image.scalar_type() == at::kByte && image.numel() > 0 &&
                        (image.size(0) == 1 || image.size(0) == 3),
                    std::string(who),
                    ": it takes images of bytes (uint8) with 1 or 3 channels, before to_float and normalize; got ",
                    image.defined() ? c10::toString(image.scalar_type()) : "nothing", " ",
                    image.defined() ? image.sizes() : at::IntArrayRef());
  ImageBytes bytes{image.permute({1, 2, 0}).contiguous(), {}};
  bytes.view = {static_cast<const uint8_t*>(bytes.memory.const_data_ptr()), image.size(1), image.size(2),
                image.size(0)};
  return bytes;
}

at::Tensor& ImageIn(Sample& sample, absl::string_view who) {
  const auto found = sample.tensors.find("inputs");
  TORCH_CHECK_VALUE(found != sample.tensors.end() && found->second.dim() == 3, std::string(who),
                    ": `inputs` is not an image of channels, rows and columns; put decode_image before it");
  return found->second;
}

}  // namespace composer
