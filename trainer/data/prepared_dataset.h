// Makes a Dataset of a SampleSource: each sample goes through the transforms, in their order, and the collator makes a
// batch of them. Source: torch's Dataset, transforms and collate_fn.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "trainer/core/dataset.h"

namespace composer {

struct Preparation {
  std::vector<std::shared_ptr<const SampleTransform>> transforms;
  std::shared_ptr<const Collator> collator;  // null: StackCollator
  uint64_t seed = 0;                         // of what transforms draw
};

// Applies the transforms to the sample with this id. What transform i draws depends on (seed, epoch, id, i) only.
// Errors name the sample.
void ApplyTransforms(const std::vector<std::shared_ptr<const SampleTransform>>& transforms, uint64_t seed,
                     int64_t epoch, Sample& sample);

// Returns an IterableDataset if the source's size is kUnknownSize, else an indexed one, whose
// Load is LoadIn of epoch 0.
std::shared_ptr<const Dataset> PrepareSamples(std::shared_ptr<const SampleSource> source, Preparation preparation);

}  // namespace composer
