// What becomes of a step's gradients: they are summed over ranks with the step's message, checked and scaled; then the
// update is made or skipped, or the step is discarded. How they come about is in train_batch_passes.cc.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/DeviceAccelerator.h>
#include <torch/types.h>

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "trainer/core/model_sharding.h"
#include "trainer/core/torch_status.h"
#include "trainer/loop/check_in_backward.h"
#include "trainer/loop/train_batch.h"
#include "trainer/metrics/metric_sums.h"

namespace composer {

StepMessage TrainBatch::SumOverRanks(const StepMessage& message) {
  const TraceSpan span(state_.tracer, kReduceSpan);
  plan_->FinishParts();
  if (sync_->is_alone()) return ReadAlone(message);
  const bool has_passed = message.trained_samples > 0 && message.out_of_memory == 0;
  if (!has_passed || plan_->sums_at_the_end()) FillTail(message);  // else RunPasses has
  sync_->Finish();
  StepMessage agreed = ReadTail();
  plan_->SumOverRanks(agreed);
  return agreed;
}

StepMessage TrainBatch::ReadAlone(const StepMessage& message) {
  DeviceRead read;
  ReadSums(read);
  alone_->Finish();
  alone_->ReadWith(read);
  fits_.reset();
  if (state_.settings.scaler && message.out_of_memory == 0) {
    std::vector<at::Tensor> grads = PresentGradients();
    fits_ = true;
    if (at::Tensor found = state_.settings.scaler->StartUnscale(grads); found.defined())
      read.Add(std::move(found), [this](absl::Span<const double> overflow) { fits_ = overflow[0] == 0; });
  }
  read.Read();
  StepMessage own = message;
  own.weighted_loss = reported_losses().total();
  return own;
}

void TrainBatch::ReadSums(DeviceRead& read) {
  reported_losses().ReadWith(read);
  if (agreed_ || !request_.measure) return;
  for (const auto& metric : state_.train_metrics) {
    if (auto* const summed = dynamic_cast<SummedMetric*>(metric.get())) summed->ReadWith(read);
  }
}

void TrainBatch::Settle(const StepMessage& agreed, double factor) {
  agreed_ = agreed;
  if (sync_->is_alone()) {
    agreed_parts_ = losses_.parts();
  } else {
    const size_t known = losses_.part_names().size();
    agreed_parts_.assign(agreed.weighted_parts.begin(), agreed.weighted_parts.end());
    if (agreed.with_more_parts > 0) SumMoreParts(agreed);
    agreed_parts_.resize(std::max(known, agreed_parts_.size()));
  }
  for (double& part : agreed_parts_) part *= factor;
  state_.step = {agreed.weighted_loss * factor, agreed.samples, agreed.tokens};
}

// A rank without samples does not know how many parts there are.
void TrainBatch::SumMoreParts(const StepMessage& agreed) {
  std::vector<double> more = plan_->MoreParts(losses_);
  double total = static_cast<double>(more.size());
  communicator_.AllReduceSum(absl::MakeSpan(&total, 1));
  more.resize(static_cast<size_t>(total) / static_cast<size_t>(agreed.with_more_parts));
  communicator_.AllReduceSum(absl::MakeSpan(more));
  agreed_parts_.insert(agreed_parts_.end(), more.begin(), more.end());
}

void TrainBatch::Discard() {
  const torch::NoGradGuard no_grad;
  for (const at::Tensor& param : params_) param.mutable_grad().reset();
  RestoreBuffers();
  state_.outputs.reset();
  state_.loss.reset();
  if (!state_.identity.device.is_cpu()) at::getDeviceAllocator(state_.identity.device.type())->emptyCache();
}

bool TrainBatch::MayUpdateWithNan(double loss) {
  const NanPolicy::Action action = state_.settings.nan.OnStep(false);
  const std::string what = absl::StrCat(
      std::isfinite(loss) ? absl::StrCat("a gradient of batch ", state_.timestamp.batch + 1, " (epoch ",
                                         state_.timestamp.epoch, ") is NaN or infinite, at a loss of ", loss)
                          : absl::StrCat("the loss of batch ", state_.timestamp.batch + 1, " (epoch ",
                                         state_.timestamp.epoch, ") is ", std::isnan(loss) ? "NaN" : "infinite"));
  if (action == NanPolicy::Action::kStop) ThrowIfError(NotFinite(what));
  if (state_.settings.nan.is_first() && state_.identity.rank == 0)
    LOG(WARNING) << what
                 << (action == NanPolicy::Action::kSkip ? ": the step is skipped (on_nan: skip)"
                                                        : ": training continues (on_nan: continue)");
  if (action == NanPolicy::Action::kUpdate) return true;
  const torch::NoGradGuard no_grad;
  RestoreBuffers();
  return false;
}

absl::Status TrainBatch::NotFinite(const std::string& what) const {
  const int64_t in_a_row = state_.settings.nan.in_a_row();
  return absl::InvalidArgumentError(absl::StrCat(
      what, in_a_row > 1 ? absl::StrCat(", the ", in_a_row, "th such step in a row") : "",
      UpdatesInBackward(state_) ? "; with in_backward, the parameters whose gradients came before it were updated"
                                : "; the parameters were not updated",
      ", and no checkpoint of this step is saved. Try a lower learning rate or a longer warm-up",
      state_.settings.precision != Precision::kFp32 ? ", precision: fp32" : "", ", and look for bad values in the data",
      in_a_row > 1 ? "" : "; on_nan: skip leaves such steps out"));
}

bool TrainBatch::PrepareGradients(double factor) {
  if (!state_.settings.scaler && factor == 1) return true;
  if (fits_.has_value()) return *std::exchange(fits_, std::nullopt);
  const torch::NoGradGuard no_grad;
  std::vector<at::Tensor> grads = PresentGradients();
  if (factor != 1) at::_foreach_mul_(grads, factor);
  if (!state_.settings.scaler) return true;
  const bool finite = state_.settings.scaler->Unscale(grads);
  if (state_.sharding == nullptr) return finite;
  const at::Tensor overflows = torch::full({1}, finite ? 0.0 : 1.0, torch::device(state_.identity.device));
  state_.sharding->SumOverShards(overflows);
  return overflows.item<float>() == 0;
}

std::vector<at::Tensor> TrainBatch::PresentGradients() const {
  std::vector<at::Tensor> grads;
  for (const at::Tensor& param : params_) {
    if (param.grad().defined()) grads.push_back(param.grad());
  }
  return grads;
}

void TrainBatch::RestoreBuffers() {
  if (!buffers_.empty()) at::_foreach_copy_(buffers_, saved_buffers_);
}

void TrainBatch::FillTail(StepMessage message) {
  if (sync_->is_alone()) return;
  const bool counts = state_.identity.tensor_rank == 0;  // the others have the same samples
  if (!FillTailOnDevice(counts)) {
    DeviceRead read;
    ReadSums(read);
    read.Read();
    LossSums& losses = reported_losses();
    const std::vector<double>& parts = losses.parts();
    message.weighted_loss = losses.total();
    std::copy_n(parts.begin(), std::min(parts.size(), message.weighted_parts.size()), message.weighted_parts.begin());
    message.with_more_parts = plan_->MoreParts(losses).empty() ? 0 : 1;
  }
  (counts ? message : message.VotesOnly()).Encode(sync_->tail());
  float* next = sync_->tail().data() + StepMessage::kLength;
  for (const auto& metric : state_.train_metrics) {
    for (const double sum : metric->sums()) {
      WireNumber::Put(counts && !agreed_ ? sum : 0, next);
      next += WireNumber::kLength;
    }
  }
}

bool TrainBatch::FillTailOnDevice(bool counts) {
  sync_->SetDeviceTail({});
  LossSums& losses = reported_losses();
  const auto parts = static_cast<int64_t>(losses.part_names().size());
  if (agreed_ || !losses.on_device() || parts > StepMessage::kMaxLossParts || plan_->sums_at_the_end()) return false;
  constexpr int64_t kLosses = 1 + StepMessage::kMaxLossParts;
  int64_t length = kLosses;
  for (const auto& metric : state_.train_metrics) {
    const auto* const summed = dynamic_cast<SummedMetric*>(metric.get());
    if (summed == nullptr || !summed->on_device()) return false;
    length += static_cast<int64_t>(summed->num_sums());
  }
  const torch::NoGradGuard no_grad;
  const at::Tensor numbers = torch::zeros({length}, weight_.options().dtype(torch::kDouble));
  losses.MoveTo(numbers.narrow(0, 0, 1 + parts));
  int64_t next = kLosses;
  for (const auto& metric : state_.train_metrics) {
    auto& summed = static_cast<SummedMetric&>(*metric);
    const auto count = static_cast<int64_t>(summed.num_sums());
    summed.MoveTo(numbers.narrow(0, next, count));
    next += count;
  }
  if (!counts) return true;
  if (!wire_rates_.defined()) wire_rates_ = WireNumber::Rates().to(numbers.device());
  sync_->SetDeviceTail(
      {StepMessage::kLength - kLosses * WireNumber::kLength, WireNumber::PutAll(numbers, wire_rates_)});
  return true;
}

StepMessage TrainBatch::ReadTail() {
  const float* next = sync_->tail().data() + StepMessage::kLength;
  for (const auto& metric : state_.train_metrics) {
    if (agreed_) break;  // the sums of the step's first evaluation stay
    for (double& sum : metric->sums()) {
      sum = WireNumber::Get(next);
      next += WireNumber::kLength;
    }
  }
  return StepMessage::Decode(sync_->tail());
}

}  // namespace composer
