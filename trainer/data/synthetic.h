// Synthetic data for tests and benchmarks.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "trainer/core/dataset.h"

namespace composer {

struct GaussianClassificationOptions {
  int64_t size = 4096;
  int64_t features = 64;
  int64_t classes = 10;
  double separation = 1.0;   // standard deviation of the class centres, in units of the noise within a class
  uint64_t seed = 0;         // of the centres: the same seed makes the same task
  uint64_t sample_seed = 0;  // of the samples: another seed makes other samples of the same task
};

// Sample i is of class i mod classes: features = centre(seed, class) * separation + noise(seed, sample_seed, i), both
// independent standard normals. The data is a pure function of the options, the same on every machine up to libm's
// rounding. Batches have inputs float32 [B, features] and targets int64 [B]; all samples are kept in memory (at most 4
// GiB). Returns kInvalidArgument that names the field that is out of range.
absl::StatusOr<std::shared_ptr<const Dataset>> MakeGaussianClassification(const GaussianClassificationOptions& options);

}  // namespace composer
