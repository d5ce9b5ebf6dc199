// A Dataset is a finite, indexable set of samples; a Loader makes a run's batches of one.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "absl/types/span.h"
#include "trainer/core/batch.h"

namespace composer {

// Threads: Load may be called from several threads at once.
class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual int64_t size() const = 0;
  // Returns the samples with these indices, each in [0, size()), in this order. Pure: the same indices give the same
  // batch. An empty list gives a batch with B = 0 and tensors of the right trailing shape and dtype. Throws
  // (c10::Error), naming the sample, when one cannot be read.
  virtual Batch Load(absl::Span<const int64_t> indices) const = 0;
};

// A Loader gives a rank its share of each global batch of a dataset. Algorithms and callbacks see a run's loaders as this
// (State::train_dataloader, State::dataloader); trainer/data/data_loader.h implements it.
class Loader {
 public:
  virtual ~Loader() = default;
  virtual const Dataset& dataset() const = 0;
  virtual const std::string& label() const = 0;   // Composer's dataloader_label
  virtual int64_t batches_per_epoch() const = 0;  // Composer's dataloader_len; with a subset, that of the subset
  // Returns the number of samples of a batch over all ranks.
  virtual int64_t global_samples(int64_t batch_in_epoch) const = 0;
};

}  // namespace composer
