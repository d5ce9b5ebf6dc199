// Turns any loss into a metric.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>

#include "trainer/core/metric.h"

namespace composer {

// Returns a scalar that is a mean over the samples of a batch.
using LossFunction = std::function<at::Tensor(const at::Tensor& outputs, const at::Tensor& targets)>;

// "LossMetric": the mean over all samples. batch_mean gives Composer's value, the mean of the batches' losses.
// Source: mosaicml composer/metrics/metrics.py.
std::unique_ptr<Metric> MakeLossMetric(LossFunction loss, bool batch_mean = false);

}  // namespace composer
