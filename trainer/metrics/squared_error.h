// The mean squared error of models that have what they should compute among their outputs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "trainer/core/metric.h"

namespace composer {

// Mean of the squared differences of `outputs` and `target` over all elements: torchmetrics' MeanSquaredError.
std::unique_ptr<Metric> MakeTargetSquaredError();

}  // namespace composer
