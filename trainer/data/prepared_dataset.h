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

// Returns an IterableDataset if the source's size is kUnknownSize, else an indexed one. What transform i draws for a
// sample depends on (seed, epoch, sample, i) only; Load is LoadIn of epoch 0.
std::shared_ptr<const Dataset> PrepareSamples(std::shared_ptr<const SampleSource> source, Preparation preparation);

}  // namespace composer
