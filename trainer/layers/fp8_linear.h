// Fp8LinearLayer is a linear layer whose three products are of 8-bit tensors (fp8_recipe.h). For x [M, K], W [N, K]:
//
//   y  [M, N] = e4m3(x) e4m3(W)^T + bias          in autocast's type
//   dx [M, K] = e5m2(dy) e4m3(W)                  in x's type
//   dW [N, K] = e5m2(dy)^T e4m3(x)                in W's type, summed in float32
//
// It computes so in training, while autocast is on and M is a multiple of 16; otherwise it is a LinearLayer. For
// backward it keeps x in 8 bits and the parameter itself, which it rounds again: with sharding, as it was gathered
// again.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "trainer/layers/fp8_scaling.h"
#include "trainer/layers/torch_layers.h"

namespace composer {

class Fp8LinearLayer final : public LinearLayer {
 public:
  // Has the other's options and its very parameters. Requires WhyNotFp8(linear) == "".
  Fp8LinearLayer(const LinearLayer& linear, const std::string& name, c10::intrusive_ptr<Fp8Scaling> scaling);
  // Gradients are of the first order: backward with create_graph throws c10::ValueError.
  at::Tensor forward(const at::Tensor& x) override;

  const c10::intrusive_ptr<Fp8Scaling>& scaling() const { return scaling_; }

 private:
  bool Takes(const at::Tensor& x) const;

  c10::intrusive_ptr<Fp8Scaling> scaling_;
  size_t number_;  // in scaling_
};

// Returns why the layer cannot be an Fp8LinearLayer ("100 inputs are not a multiple of 16"); "" if it can.
std::string WhyNotFp8(const LinearLayer& linear);

}  // namespace composer
