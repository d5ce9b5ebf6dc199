// SPDX-License-Identifier: Apache-2.0
#include "trainer/algorithms/optimisation/gradient_clipping.h"

#include <limits>
#include <vector>

#include "trainer/core/state.h"
#include "trainer/optim/model_params.h"
#include "trainer/parallel/norms/adaptive_clipping.h"
#include "trainer/parallel/norms/gradient_norm.h"

namespace composer {

absl::Status GradientClipping::Apply(Event /*event*/, State& state, Logger& /*logger*/) {
  const std::vector<at::Tensor> params = ParametersOnce(*state.model);
  switch (type_) {
    case ClippingType::kNorm:
      if (!ClipGradientsOnDevice(params, threshold_, state.sharding))
        ClipGradientsByNorm(params, threshold_, state.sharding);
      break;
    case ClippingType::kValue:
      if (scales_sharded_ && state.sharding != nullptr) {
        ClipGradientsByNorm(params, threshold_, state.sharding, std::numeric_limits<double>::infinity());
      } else {
        ClipGradientsByValue(params, threshold_);
      }
      break;
    case ClippingType::kAdaptive:
      ClipGradientsAdaptively(params, threshold_, state.sharding);
      break;
  }
  return absl::OkStatus();
}

}  // namespace composer
