// SPDX-License-Identifier: Apache-2.0
#include "trainer/layers/attention_core.h"

#include <ATen/ops/scaled_dot_product_attention.h>

namespace composer {

at::Tensor DotProductAttention::forward(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                        const std::optional<at::Tensor>& mask, bool is_causal) {
  return at::scaled_dot_product_attention(q, k, v, mask, is_training() ? dropout_ : 0.0, is_causal);
}

}  // namespace composer
