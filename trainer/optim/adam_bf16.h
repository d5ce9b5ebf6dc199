// The update of adam_group.h for one parameter whose moments are kept in bfloat16: 4 bytes of state an element in place
// of 8, and less to read and write. On a CPU.
//
// The arithmetic is float32; m and v are rounded to bfloat16 when they are stored, at random: up with the probability
// of the part that is cut off, so that the stored value is right on average. Rounded to the nearest, v would stay where
// it is: with beta2 = 0.999 it shrinks by 1/1000 a step, and the next smaller bfloat16 is 1/256 away. Rounded at random
// it wanders about its true value, by 0.4 % / sqrt(2 (1 - beta2)) of it at most: 9 % (one sigma). The random bits
// are a hash of `seed` and the element's number, so equal runs have equal bits, on any number of threads.
//
// Source of rounding at random: Gupta et al. 2015, arXiv:1502.02551, section 3. The hash's last steps: MurmurHash3's
// finalizer (A. Appleby, public domain).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace composer {

// p <- keep p; g <- g + l2 p; m <- beta1 m + (1 - beta1) g; v <- beta2 v + (1 - beta2) g^2;
// p <- p - step_size m / (sqrt(v) inverse_root + eps)
struct AdamBf16Update {
  float keep = 1, l2 = 0, beta1 = 0, beta2 = 0, eps = 0;
  float step_size = 0;     // lr / (1 - beta1^t)
  float inverse_root = 1;  // 1 / sqrt(1 - beta2^t)
  uint32_t seed = 0;       // another one in each step
};

// param and grad are float32, exp_avg and exp_avg_sq bfloat16, all on a CPU, dense and with the same strides; throws
// c10::Error if not.
void ApplyAdamBf16(const AdamBf16Update& update, const at::Tensor& param, const at::Tensor& grad,
                   const at::Tensor& exp_avg, const at::Tensor& exp_avg_sq);

// Returns the bits of the bfloat16 next to x, the larger one in magnitude with the probability (of `random`, 16 bits)
// of what lies between. Keeps infinities and NaN.
inline uint16_t RoundToBf16(float x, uint32_t random) {
  uint32_t bits = 0;
  __builtin_memcpy(&bits, &x, sizeof(bits));
  return static_cast<uint16_t>((bits + (random & 0xffffU)) >> 16U);
}

}  // namespace composer
