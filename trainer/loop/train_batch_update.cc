// What becomes of a step's gradients: they are summed over ranks with the step's message, checked and scaled; then the
// update is made or skipped, or the step is discarded. How they come about is in train_batch.cc.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/DeviceAccelerator.h>
#include <torch/torch.h>

#include <cmath>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "trainer/core/model_sharding.h"
#include "trainer/core/torch_status.h"
#include "trainer/loop/train_batch.h"

namespace composer {

StepMessage TrainBatch::ReduceOverRanks(const StepMessage& message) {
  if (sync_ == nullptr) {
    StepMessage own = message;
    CheckOwnGradients();  // before the first wait for the GPU
    own.weighted_loss = static_cast<float>(losses_.total());
    for (size_t i = 0; i < own.weighted_parts.size(); ++i)
      own.weighted_parts[i] = static_cast<float>(losses_.parts()[i]);
    return own;
  }
  const TraceSpan span(state_.tracer, kReduceSpan);
  if (elastic_ != nullptr) elastic_->FinishLeaves();
  if (message.samples == 0 || message.out_of_memory > 0 || elastic_ != nullptr) FillTail(message);
  sync_->Finish();
  StepMessage agreed = ReadTail();
  if (elastic_ != nullptr) elastic_->SumOverRanks(agreed);
  return agreed;
}

void TrainBatch::Discard() {
  const torch::NoGradGuard no_grad;
  for (const at::Tensor& param : params_) param.mutable_grad().reset();
  RestoreBuffers();
  state_.outputs.reset();
  state_.loss.reset();
  if (!state_.device.is_cpu()) at::getDeviceAllocator(state_.device.type())->emptyCache();
}

void TrainBatch::CheckOwnGradients() {
  check_.Reset();
  if (state_.scaler) return;
  if (state_.device.is_cpu()) {
    for (const at::Tensor& param : params_) check_.Add(param.grad());
    return;
  }
  std::vector<at::Tensor> grads;
  for (const at::Tensor& param : params_) grads.push_back(param.grad());
  check_.Add(grads);
}

bool TrainBatch::MayUpdate(bool gradients_finite) {
  const double loss = state_.step.loss;
  const NanPolicy::Action action = state_.nan.OnStep(std::isfinite(loss) && gradients_finite);
  if (action == NanPolicy::Action::kUpdate && state_.nan.in_a_row() == 0) return true;
  const std::string what = absl::StrCat(
      std::isfinite(loss) ? absl::StrCat("a gradient of batch ", state_.timestamp.batch + 1, " (epoch ",
                                         state_.timestamp.epoch, ") is NaN or infinite, at a loss of ", loss)
                          : absl::StrCat("the loss of batch ", state_.timestamp.batch + 1, " (epoch ",
                                         state_.timestamp.epoch, ") is ", std::isnan(loss) ? "NaN" : "infinite"));
  if (action == NanPolicy::Action::kStop) ThrowIfError(NotFinite(what));
  if (state_.nan.is_first() && state_.rank == 0)
    LOG(WARNING) << what
                 << (action == NanPolicy::Action::kSkip ? ": the step is skipped (on_nan: skip)"
                                                        : ": training continues (on_nan: continue)");
  if (action == NanPolicy::Action::kUpdate) return true;
  const torch::NoGradGuard no_grad;
  RestoreBuffers();
  return false;
}

absl::Status TrainBatch::NotFinite(const std::string& what) const {
  const int64_t in_a_row = state_.nan.in_a_row();
  return absl::InvalidArgumentError(absl::StrCat(
      what, in_a_row > 1 ? absl::StrCat(", the ", in_a_row, "th such step in a row") : "",
      "; the parameters were not updated, and no checkpoint of this step is saved. Try a lower learning rate or a "
      "longer warm-up",
      state_.precision != Precision::kFp32 ? ", precision: fp32" : "", ", and look for bad values in the data",
      in_a_row > 1 ? "" : "; on_nan: skip leaves such steps out"));
}

bool TrainBatch::PrepareGradients(double factor) {
  if (!state_.scaler && factor == 1) return true;
  const torch::NoGradGuard no_grad;
  std::vector<at::Tensor> grads;
  for (const at::Tensor& param : params_) {
    if (param.grad().defined()) grads.push_back(param.grad());
  }
  if (factor != 1) at::_foreach_mul_(grads, factor);
  if (!state_.scaler) return true;
  const bool finite = state_.scaler->Unscale(grads);
  if (state_.sharding == nullptr) return finite;
  const at::Tensor overflows = torch::full({1}, finite ? 0.0 : 1.0, torch::device(state_.device));
  state_.sharding->SumOverShards(overflows);
  return overflows.item<float>() == 0;
}

void TrainBatch::RestoreBuffers() {
  if (!buffers_.empty()) at::_foreach_copy_(buffers_, saved_buffers_);
}

void TrainBatch::FillTail(StepMessage message) {
  message.weighted_loss = static_cast<float>(losses_.total());
  for (size_t i = 0; i < message.weighted_parts.size(); ++i)
    message.weighted_parts[i] = static_cast<float>(losses_.parts()[i]);
  const bool counts = state_.tensor_rank == 0;  // the others have the same samples
  const absl::Span<float> tail = sync_->tail();
  (counts ? message : message.VotesOnly()).Encode(tail);
  size_t next = StepMessage::kLength;
  for (const auto& metric : state_.train_metrics) {
    for (const double sum : metric->sums()) tail[next++] = counts ? static_cast<float>(sum) : 0;
  }
}

StepMessage TrainBatch::ReadTail() {
  const absl::Span<const float> tail = sync_->tail();
  size_t next = StepMessage::kLength;
  for (const auto& metric : state_.train_metrics) {
    for (double& sum : metric->sums()) sum = tail[next++];
  }
  return StepMessage::Decode(tail);
}

}  // namespace composer
