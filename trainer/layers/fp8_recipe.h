// The recipe of `precision: amp_fp8`: how linear layers are computed in 8-bit floating point.
//
// A tensor x is rounded to fp8(x scale), scale = max(type) / (amax 2^margin), which spreads its values over the type's
// range: e4m3 (4 bits of exponent, 3 of fraction, up to 448) or e5m2 (5 and 2, up to 57344). amax is the largest |x|:
//
//   delayed   of the steps before, amax_history_len of them: the largest of them (max) or the last (most_recent). It is
//             known before the step; a tensor without history, in the first step, takes its own.
//   current   of x itself: no state, one more pass over x before it is rounded.
//
// Weights and what goes into a layer are e4m3. Gradients of what comes out are e5m2 with HYBRID, e4m3 with E4M3.
//
// Source: TransformerEngine common/recipe (DelayedScaling, Float8CurrentScaling), whose names and defaults these are,
// but amax_history_len, which is mosaicml's (core/precision.py). Micikevicius et al. 2022, arXiv:2209.05433. There a
// history advances with each forward; here with each step, as microbatches and recomputation in backward must not
// count.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>

#include "trainer/layers/layer_selector.h"

namespace composer {

enum class Fp8Format { kHybrid, kE4m3 };
enum class Fp8Scales { kDelayed, kCurrent };
enum class Fp8AmaxAlgo { kMax, kMostRecent };

struct Fp8Recipe {
  Fp8Format fp8_format = Fp8Format::kHybrid;
  Fp8Scales scaling = Fp8Scales::kDelayed;
  int64_t amax_history_len = 16;  // steps, >= 1; with kDelayed
  Fp8AmaxAlgo amax_compute_algo = Fp8AmaxAlgo::kMax;
  int64_t margin = 0;   // >= 0
  LayerChoice exclude;  // linear layers that stay as they are, besides those that cannot be computed so

  at::ScalarType gradient_type() const {
    return fp8_format == Fp8Format::kHybrid ? at::kFloat8_e5m2 : at::kFloat8_e4m3fn;
  }
};

}  // namespace composer
