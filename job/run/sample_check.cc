// SPDX-License-Identifier: Apache-2.0
#include "job/run/sample_check.h"

#include <c10/core/DeviceType.h>
#include <torch/types.h>

#include <algorithm>
#include <sstream>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "trainer/core/torch_status.h"
#include "trainer/data/data_loader.h"
#include "trainer/init/construct_model.h"

namespace composer {
namespace {

Batch SpreadSamples(const Dataset& dataset) {
  if (dataset.iterable() != nullptr) return FirstSamples(dataset, kTriedSamples);
  const int64_t count = std::min(dataset.size(), kTriedSamples);
  std::vector<int64_t> ids;
  for (int64_t i = 0; i < count; ++i) ids.push_back(i * dataset.size() / count);
  Batch batch = dataset.Load(ids);
  batch.sample_ids = std::move(ids);
  return batch;
}

std::string ShapeOf(const at::Tensor& tensor) {
  if (!tensor.defined()) return "none";
  std::ostringstream text;
  text << tensor.sizes().slice(tensor.dim() > 0 ? 1 : 0) << " of " << tensor.dtype().name();
  return text.str();
}

// Returns the first line of an error; unless it begins with a key, adds what was tried.
absl::Status Refused(const absl::Status& status, const Batch& batch) {
  const absl::string_view message = status.message().substr(0, status.message().find('\n'));
  if (absl::StartsWith(message, "model.") || absl::StartsWith(message, "model: "))
    return absl::InvalidArgumentError(message);
  return absl::InvalidArgumentError(absl::StrCat("model: does not take the samples of the data (inputs ",
                                                 ShapeOf(batch.inputs), ", targets ", ShapeOf(batch.targets),
                                                 "): ", message));
}

}  // namespace

absl::StatusOr<SampleCheck> CheckSamples(const ModelFactory& make_model, const Dataset& dataset, uint64_t seed) {
  SampleCheck result;
  ConstructedModel made;
  Batch batch;
  RETURN_IF_ERROR(Annotate(CatchTorch([&] { made = ConstructModel(make_model, seed); }), "model"));
  RETURN_IF_ERROR(Annotate(CatchTorch([&] { batch = SpreadSamples(dataset); }), "train_dataloader"));
  int64_t bytes = 0;
  for (const at::Tensor& param : made.model->parameters()) {
    result.parameters += param.numel();
    bytes += param.numel() * static_cast<int64_t>(param.element_size());
  }
  if (bytes > kLargestTrial) {
    result.not_tried = absl::StrFormat("its parameters take %.1f GiB", static_cast<double>(bytes) / (1 << 30));
    return result;
  }
  const absl::Status status = CatchTorch([&] {
    const at::NoGradGuard no_grad;
    GiveValues(made, at::kCPU, /*sharded=*/false);
    made.model->eval();
    made.model->loss(made.model->forward(batch), batch);
  });
  if (!status.ok()) return Refused(status, batch);
  return result;
}

}  // namespace composer
