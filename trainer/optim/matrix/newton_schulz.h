// Approximates the nearest (semi-)orthogonal matrix: Muon's Newton-Schulz iteration, for many matrices of one shape at
// once.
//
//   X <- G / max(|G|_F, eps), in bfloat16
//   steps times:  A = X X^T;  X <- a X + (b A + c A A) X,  or, with more rows than columns,
//                 A = X^T X;  X <- a X + X (b A + c A A)
// Nothing but the products is computed in a step, in memory that all steps share. The coefficients are chosen for
// speed, not convergence: singular values end between about 0.5 and 1.5.
//
// Source: Jordan 2024, kellerjordan.github.io/posts/muon; torch/optim/_muon.py (2.11), _zeropower_via_newtonschulz().
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <array>

namespace composer {

struct NewtonSchulz {
  std::array<double, 3> coefficients = {3.4445, -4.7750, 2.0315};  // a, b, c
  int steps = 5;                                                   // [0, 100)
  double eps = 1e-7;                                               // > 0
};

// Writes the results to `directions`. Both are [N, R, C], bfloat16, contiguous and apart from each other; matrices are
// overwritten. A matrix has the same bits alone and among others.
void Orthogonalize(at::Tensor matrices, const at::Tensor& directions, const NewtonSchulz& options);

}  // namespace composer
