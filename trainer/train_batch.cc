// SPDX-License-Identifier: Apache-2.0
#include "trainer/train_batch.h"

#include <torch/torch.h>

#include <algorithm>

#include "trainer/core/autocast.h"
#include "trainer/torch_status.h"

namespace composer {

TrainBatch::TrainBatch(State& state, Engine& engine, Communicator& communicator)
    : state_(state), engine_(engine), weight_(torch::ones({})) {
  for (const at::Tensor& param : state.model->parameters()) {
    if (param.requires_grad()) params_.push_back(param);
  }
  if (communicator.world_size() == 1) return;
  GradientReducer::Options options;
  options.tail_length = StepMessage::kLength;
  for (const auto& metric : state.train_metrics) options.tail_length += static_cast<int>(metric->sums().size());
  reducer_ = std::make_unique<GradientReducer>(params_, communicator, options);
}

StepMessage TrainBatch::Run(const Request& request) {
  ThrowIfError(engine_.Run(Event::kBeforeTrainBatch));
  for (const at::Tensor& param : params_) param.mutable_grad().reset();
  for (const auto& metric : state_.train_metrics) metric->Reset();
  weighted_loss_ = 0;
  StepMessage message = request.message;
  message.samples = state_.batch.num_samples;
  message.tokens = state_.batch.num_tokens;
  RunMicrobatches(request, message);
  if (reducer_ == nullptr) {
    message.weighted_loss = static_cast<float>(weighted_loss_);
  } else {
    if (message.samples == 0) FillTail(message);
    reducer_->Finish();
    message = ReadTail();
  }
  state_.step = {reducer_ == nullptr ? weighted_loss_ : message.weighted_loss, message.samples, message.tokens};
  ThrowIfError(engine_.Run(Event::kAfterTrainBatch));
  state_.optimizer->Step();
  return message;
}

void TrainBatch::RunMicrobatches(const Request& request, const StepMessage& message) {
  const int64_t num_samples = state_.batch.num_samples;
  const int64_t wanted = state_.device_train_microbatch_size;
  const int64_t size = wanted > 0 ? std::min(wanted, num_samples) : num_samples;
  if (num_samples == 0) return;
  const Batch whole = size < num_samples ? std::exchange(state_.batch, {}) : Batch{};
  for (int64_t begin = 0; begin < num_samples; begin += size) {
    const int64_t end = std::min(begin + size, num_samples);
    if (size < num_samples) state_.batch = whole.Slice(begin, end);
    RunForward(request.measure);
    const double weight = static_cast<double>(end - begin) / static_cast<double>(request.global_samples);
    weighted_loss_ += weight * state_.loss.item<double>();
    if (end == num_samples && reducer_ != nullptr) {
      FillTail(message);
      reducer_->Arm();
    }
    RunBackward(weight);
  }
  if (size < num_samples) state_.batch = whole;
}

void TrainBatch::RunForward(bool measure) {
  const AutocastScope autocast(state_.precision, weight_.device().type());
  ThrowIfError(engine_.Run(Event::kBeforeForward));
  state_.outputs = state_.model->forward(state_.batch);
  ThrowIfError(engine_.Run(Event::kAfterForward));
  ThrowIfError(engine_.Run(Event::kBeforeLoss));
  Loss loss = state_.model->loss(state_.outputs, state_.batch);
  state_.loss = std::move(loss.total);
  state_.loss_parts = std::move(loss.parts);
  TORCH_CHECK_VALUE(state_.loss.numel() == 1,
                    "the model's loss must be a scalar (the mean over the batch), it has shape ", state_.loss.sizes());
  ThrowIfError(engine_.Run(Event::kAfterLoss));
  if (!measure) return;
  const torch::NoGradGuard no_grad;
  for (const auto& metric : state_.train_metrics) metric->Update(state_.outputs.detach(), state_.batch);
}

void TrainBatch::RunBackward(double weight) {
  ThrowIfError(engine_.Run(Event::kBeforeBackward));
  // Backward starts from the weight instead of 1: the same as scaling the loss, without an operation.
  weight_.fill_(weight);
  state_.loss.backward(state_.loss.dim() == 0 && state_.loss.scalar_type() == at::kFloat
                           ? weight_
                           : weight_.to(state_.loss.scalar_type()).expand_as(state_.loss));
  ThrowIfError(engine_.Run(Event::kAfterBackward));
}

void TrainBatch::FillTail(StepMessage message) {
  message.weighted_loss = static_cast<float>(weighted_loss_);
  const absl::Span<float> tail = reducer_->tail();
  message.Encode(tail);
  size_t next = StepMessage::kLength;
  for (const auto& metric : state_.train_metrics) {
    for (const double sum : metric->sums()) tail[next++] = static_cast<float>(sum);
  }
}

StepMessage TrainBatch::ReadTail() {
  const absl::Span<const float> tail = reducer_->tail();
  size_t next = StepMessage::kLength;
  for (const auto& metric : state_.train_metrics) {
    for (double& sum : metric->sums()) sum = tail[next++];
  }
  return StepMessage::Decode(tail);
}

}  // namespace composer
