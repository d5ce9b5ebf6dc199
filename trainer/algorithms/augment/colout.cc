// SPDX-License-Identifier: Apache-2.0
#include "trainer/algorithms/augment/colout.h"

#include <torch/types.h>

#include <vector>

#include "absl/strings/str_cat.h"
#include "trainer/core/random.h"
#include "trainer/core/state.h"

namespace composer {

absl::Status Validate(const ColOutOptions& options) {
  for (const auto& [field, part] : {std::pair{"p_row", options.p_row}, {"p_col", options.p_col}}) {
    if (!(part >= 0 && part < 1))
      return absl::InvalidArgumentError(absl::StrCat(field, ": ", part, ", it must be at least 0 and below 1"));
  }
  if (options.resize_target.value_or(false) && !options.batch)
    return absl::InvalidArgumentError("resize_target: true goes only with batch: true, where images lose the same");
  return absl::OkStatus();
}

at::Tensor DrawKept(int64_t size, double part) {
  const auto kept = static_cast<int64_t>((1 - part) * static_cast<double>(size));
  TORCH_CHECK_VALUE(kept > 0, "colout: without a part of ", part, " none of ", size, " rows or columns is left");
  return std::get<0>(torch::randperm(size, torch::dtype(at::kLong)).slice(0, 0, kept).sort());
}

at::Tensor ColOutBatch(const at::Tensor& x, const at::Tensor& rows, const at::Tensor& columns) {
  return x.index_select(-2, rows.to(x.device())).index_select(-1, columns.to(x.device()));
}

void ColOut::ApplyToSamples(State& state) const {
  Batch& batch = state.batch;
  TORCH_CHECK_VALUE(batch.has_sample_ids(),
                    "colout: batch: false draws by sample, and this batch has none of its samples' "
                    "ids; use batch: true");
  std::vector<at::Tensor> images;
  for (size_t i = 0; i < batch.sample_ids.size(); ++i) {
    torch::manual_seed(SeedOfSample(state.identity.seed, state.timestamp.epoch, batch.sample_ids[i]));
    const at::Tensor image = batch.inputs[static_cast<int64_t>(i)];
    const at::Tensor rows = DrawKept(image.size(-2), options_.p_row),
                     columns = DrawKept(image.size(-1), options_.p_col);
    images.push_back(ColOutBatch(image, rows, columns));
  }
  batch.inputs = at::stack(images);
}

absl::Status ColOut::Apply(Event /*event*/, State& state, Logger& /*logger*/) {
  Batch& batch = state.batch;
  if (batch.num_samples == 0) return absl::OkStatus();
  const at::Tensor x = batch.inputs, t = batch.targets;
  TORCH_CHECK_VALUE(x.defined() && x.dim() >= 3, "colout: it takes images [B, C, H, W]; the inputs ",
                    x.defined() ? c10::str("have shape ", x.sizes()) : "are missing");
  if (!options_.batch) {
    ApplyToSamples(state);
    return absl::OkStatus();
  }
  const at::Tensor rows = DrawKept(x.size(-2), options_.p_row), columns = DrawKept(x.size(-1), options_.p_col);
  batch.inputs = ColOutBatch(x, rows, columns);
  const bool are_images = t.defined() && t.dim() > 2 && t.size(-2) == x.size(-2) && t.size(-1) == x.size(-1);
  if (!options_.resize_target.value_or(are_images)) return absl::OkStatus();
  TORCH_CHECK_VALUE(are_images, "colout: resize_target: true needs targets [B, *, H, W] of the images' size");
  batch.targets = ColOutBatch(t, rows, columns);
  return absl::OkStatus();
}

}  // namespace composer
