// What the convolutional networks of this room have in common: how their layers begin, and the count of their
// operations.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "trainer/layers/layer_list.h"
#include "trainer/layers/torch_layers.h"

namespace composer {

struct ConvShape {
  int64_t kernel = 3;  // odd
  int64_t stride = 1, dilation = 1, groups = 1;
  bool bias = false;
};

// Makes the convolutions of a network in the order in which a picture passes through them.
class ConvMaker {
 public:
  // side: height and width of the picture.
  explicit ConvMaker(int64_t side) : side_(side) {}

  // Zeros around the picture keep its size, up to the stride: ceil(side / stride). Weights begin with He's normal (fan
  // out), a bias with 0.
  std::shared_ptr<Conv2dLayer> Conv(int64_t in, int64_t out, const ConvShape& shape = {});
  // Conv, batch norm and an activation (null: none), named 0, 1, 2: torchvision's Conv2dNormActivation.
  std::shared_ptr<LayerSequence> ConvNorm(int64_t in, int64_t out, const ConvShape& shape,
                                          std::shared_ptr<torch::nn::Module> activation);
  static std::shared_ptr<BatchNorm2dLayer> Norm(int64_t channels);
  static std::shared_ptr<ReluLayer> Relu() { return std::make_shared<ReluLayer>(/*inplace=*/true); }

  int64_t side() const { return side_; }
  // For branches that begin where another one began, and for poolings.
  void set_side(int64_t side) { side_ = side; }
  void Count(double multiplications) { multiplications_ += multiplications; }
  // Floating point operations of forward and backward for a picture.
  double flops() const { return 3 * 2 * multiplications_; }

 private:
  int64_t side_;
  double multiplications_ = 0;
};

// Throws c10::ValueError that names model.in_channels unless inputs are floating, [B, channels, H, W].
void CheckPictures(const at::Tensor& inputs, int64_t channels);
// Throws c10::ValueError "model.FIELD: …" for a value below 1.
void CheckModelSize(const char* field, int64_t value);

}  // namespace composer
