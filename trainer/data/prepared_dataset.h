// Makes a Dataset of a SampleSource: each sample goes through the transforms, in their order, and the collator makes a
// batch of them. Source: torch's Dataset, transforms and collate_fn.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
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

// What PrepareSamples makes is one, as algorithms see it.
class PreparedDataset {
 public:
  virtual ~PreparedDataset() = default;
  // Adds a transform of images of bytes: before the first that ends their being bytes (EndsImageBytes), or at the end,
  // and after others that were added. A second one of the same name is ignored. What the other transforms draw stays as
  // it was. Samples that are loaded from now on have it. Threads: any number.
  virtual void AddImageTransform(const std::string& name, std::shared_ptr<const SampleTransform> transform) const = 0;
};

// Returns an IterableDataset if the source's size is kUnknownSize, else an indexed one, whose
// Load is LoadIn of epoch 0.
std::shared_ptr<const Dataset> PrepareSamples(std::shared_ptr<const SampleSource> source, Preparation preparation);

}  // namespace composer
