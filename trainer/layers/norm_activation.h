// Batch norm, the sum of a residual block and ReLU, which one kernel computes on a CPU (kernels/cpu_batch_norm.h).
// Where there is none for the tensors, where surgery has put something else in a layer's place, where something is
// around one, or where an observer wants to see what each layer gives, each layer runs by itself.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trainer/layers/layer.h"
#include "trainer/layers/residual_sum.h"

namespace composer {

// Returns activation(norm(x)).
at::Tensor NormActivation(Layer& norm, Layer& activation, const at::Tensor& x);

// Returns activation(sum(norm(x()), shortcut())), x computed first.
at::Tensor NormSumActivation(Layer& norm, ResidualSum& sum, Layer& activation, ResidualSum::Part x,
                             ResidualSum::Part shortcut);

}  // namespace composer
