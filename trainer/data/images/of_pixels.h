// A transform of images of bytes that is a function of pixels.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <utility>

#include "trainer/data/images/image_tensor.h"
#include "trainer/data/transforms.h"

namespace composer {

// fn(view, random) gives the new pixels.
template <typename Fn>
class PixelTransform final : public SampleTransform {
 public:
  PixelTransform(const char* name, Fn fn) : name_(name), fn_(std::move(fn)) {}
  void Apply(Sample& sample, SampleRandom& random) const override {
    at::Tensor& image = ImageIn(sample, name_);
    const ImageBytes bytes = BytesOfImage(image, name_);
    image = TensorOfImage(fn_(bytes.view, random));
  }

 private:
  const char* const name_;
  const Fn fn_;
};

template <typename Fn>
SampleTransformPtr OfPixels(const char* name, Fn fn) {
  return std::make_shared<const PixelTransform<Fn>>(name, std::move(fn));
}

}  // namespace composer
