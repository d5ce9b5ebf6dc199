// ColOut drops rows and columns of images: of H rows floor((1 - p_row) H) are left, in their order, and of W columns
// floor((1 - p_col) W). With batch: true the same ones in all images of the rank's batch; with false other ones in
// each, drawn by (seed, epoch, sample), so that an image loses the same ones on any rank and in any batch (what
// Composer does in the dataset).
//
// Source: mosaicml composer/algorithms/colout/colout.py.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "trainer/core/callback.h"

namespace composer {

struct ColOutOptions {
  double p_row = 0.15, p_col = 0.15;  // parts that are dropped, 0 up to below 1
  bool batch = true;
  // Whether targets lose the same; unset: if they are images of the inputs' size. true needs batch.
  std::optional<bool> resize_target;
};

// Returns kInvalidArgument that names the field, its value and its range.
absl::Status Validate(const ColOutOptions& options);

// Returns the indices of floor((1 - part) size) different rows or columns, sorted, drawn by torch's generator.
at::Tensor DrawKept(int64_t size, double part);
// Returns these rows and columns of x [*, H, W].
at::Tensor ColOutBatch(const at::Tensor& x, const at::Tensor& rows, const at::Tensor& columns);

class ColOut final : public Algorithm {
 public:
  explicit ColOut(const ColOutOptions& options = {}) : options_(options) {}
  std::string name() const override { return "ColOut"; }
  EventSet events() const override { return {Event::kAfterDataloader}; }
  bool Match(Event /*event*/, const State& /*state*/) const override { return true; }
  absl::Status Apply(Event event, State& state, Logger& logger) override;

 private:
  void ApplyToSamples(State& state) const;

  ColOutOptions options_;
};

}  // namespace composer
