// SPDX-License-Identifier: Apache-2.0
#include "trainer/loop/train_batch.h"

#include <torch/torch.h>

#include <algorithm>
#include <bit>
#include <numeric>

#include "absl/cleanup/cleanup.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "trainer/core/error_place.h"
#include "trainer/core/model_sharding.h"
#include "trainer/core/torch_status.h"
#include "trainer/loop/autocast.h"
#include "trainer/parallel/ddp/gradient_reducer.h"
#include "trainer/parallel/tensor/tensor_parallel_sync.h"

namespace composer {
namespace {

// Returns the factor by which token-weighted gradients are too small until the number of tokens is known: a power of
// two, so that the division afterwards is exact and the same for any number of ranks.
double TokenScale(int64_t global_samples) {
  return static_cast<double>(std::bit_ceil(static_cast<uint64_t>(global_samples)));
}

// Returns the number of loss tokens of each row, with one host wait.
std::vector<int64_t> LossTokensByRow(const Batch& batch) {
  const bool countable = batch.targets.defined() && at::isIntegralType(batch.targets.scalar_type(), false);
  if (!countable) return {};
  const at::Tensor rows = batch.targets.ne(-100).reshape({batch.num_samples, -1}).sum(1).cpu();
  const int64_t* data = rows.data_ptr<int64_t>();
  return {data, data + rows.numel()};
}

// Returns each trainable parameter once; it may have several names.
std::vector<at::Tensor> TrainableOnce(const Model& model) {
  std::vector<at::Tensor> params;
  absl::flat_hash_set<const void*> seen;
  for (const at::Tensor& param : model.parameters()) {
    if (param.requires_grad() && seen.insert(param.unsafeGetTensorImpl()).second) params.push_back(param);
  }
  return params;
}

GradientReducer::Options ReducerOptions(const DdpOptions& ddp) {
  GradientReducer::Options options;
  options.first_bucket_bytes = ddp.first_bucket_bytes;
  options.bucket_bytes = ddp.bucket_bytes;
  options.gradient_compression = ddp.gradient_compression;
  options.find_unused_parameters = ddp.find_unused_parameters;
  options.sync_strategy = ddp.sync_strategy;
  options.order_by_graph = ddp.sync_strategy == DdpSyncStrategy::kSingleAutoSync;
  return options;
}

}  // namespace

int TrainBatch::TailLength(const State& state) {
  int length = StepMessage::kLength;
  for (const auto& metric : state.train_metrics) length += static_cast<int>(metric->sums().size());
  return length;
}

TrainBatch::TrainBatch(State& state, Engine& engine, Communicator& communicator, GradientSync* sync,
                       const DdpOptions& ddp, const ElasticOptions& elastic, Communicator* tensor)
    : state_(state),
      engine_(engine),
      sync_(sync),
      world_size_(communicator.world_size()),
      weight_(torch::ones({}, torch::device(state.device))) {
  params_ = TrainableOnce(*state.model);
  if (state.auto_microbatch || state.nan.on_nan() == OnNan::kSkip) {
    buffers_ = state.model->buffers();
    for (const at::Tensor& buffer : buffers_) saved_buffers_.push_back(buffer.clone());
  }
  if (elastic.virtual_shards > 0) {
    elastic_ = std::make_unique<ElasticStep>(state, elastic, sync == nullptr ? params_ : std::vector<at::Tensor>(),
                                             communicator);
  }
  if (sync_ == nullptr && (communicator.world_size() > 1 || elastic_ != nullptr)) {
    GradientReducer::Options options = ReducerOptions(ddp);
    options.tail_length = TailLength(state);
    own_sync_ = std::make_unique<GradientReducer>(params_, communicator, options);
    sync_ = own_sync_.get();
  }
  if (tensor == nullptr) return;
  tensor_sync_ = std::make_unique<TensorParallelSync>(sync_, *tensor, TailLength(state), params_);
  sync_ = tensor_sync_.get();
}

StepMessage TrainBatch::Run(const Request& request) {
  ThrowIfError(engine_.Run(Event::kBeforeTrainBatch));
  for (const at::Tensor& param : params_) param.mutable_grad().reset();
  for (const auto& metric : state_.train_metrics) metric->Reset();
  losses_.Reset();
  if (!buffers_.empty()) at::_foreach_copy_(saved_buffers_, buffers_);
  if (elastic_ != nullptr) elastic_->BeginStep(request.global_samples);
  StepMessage message = request.message;
  message.samples = state_.batch.num_samples;
  message.tokens = state_.batch.num_tokens;
  if (sync_ != nullptr) {
    sync_->Trace(state_.tracer);
    sync_->BeginStep(NumMicrobatches(request));
  }
  try {
    if (message.samples > 0) RunMicrobatches(request, message);
  } catch (...) {
    OnOutOfMemory(message);
    message.out_of_memory = 1;
  }
  StepMessage agreed = ReduceOverRanks(message);
  if (agreed.out_of_memory > 0) {
    Discard();
    return agreed;
  }
  const double factor = FactorAfterSum(request, agreed);
  for (float& part : agreed.weighted_parts) part = static_cast<float>(part * factor);
  const double loss = elastic_ != nullptr ? elastic_->loss()
                      : sync_ == nullptr  ? losses_.total()
                                          : agreed.weighted_loss;
  state_.step = {loss * factor, agreed.samples, agreed.tokens};
  const bool finite = PrepareGradients(factor);
  ThrowIfError(engine_.Run(Event::kAfterTrainBatch));
  const bool gradients_finite = state_.scaler || (sync_ == nullptr ? check_.finite() : sync_->gradients_finite());
  if (finite && MayUpdate(gradients_finite)) {
    const TraceSpan span(state_.tracer, kOptimizerSpan);
    state_.optimizer->Step();
  }
  if (state_.scaler) state_.scaler->Update(finite);
  return agreed;
}

std::vector<double> TrainBatch::Weights(const Request& request, const std::vector<Microbatch>& plan,
                                        StepMessage& message) const {
  const int64_t samples = state_.batch.num_samples;
  std::vector<double> weights;
  if (!state_.accumulate_train_batch_on_tokens) {
    for (const Microbatch& microbatch : plan) {
      weights.push_back(static_cast<double>(microbatch.samples()) / static_cast<double>(request.global_samples));
    }
    return weights;
  }
  std::vector<int64_t> by_row = LossTokensByRow(state_.batch);
  message.loss_tokens = CountLossTokens(state_.batch);
  // If the dataset counts in its own way, tokens are taken in proportion to the rows.
  if (std::accumulate(by_row.begin(), by_row.end(), int64_t{0}) != message.loss_tokens) by_row.clear();
  TORCH_CHECK_VALUE(elastic_ == nullptr || !by_row.empty(),
                    "determinism: elastic with accumulate_train_batch_on_tokens counts the targets that are not -100; "
                    "the dataset counts the tokens of a batch in a way of its own");
  const double divisor =
      sync_ == nullptr ? static_cast<double>(message.loss_tokens) : TokenScale(request.global_samples);
  for (const auto& [begin, end, leaf] : plan) {
    double tokens =
        static_cast<double>(message.loss_tokens) * static_cast<double>(end - begin) / static_cast<double>(samples);
    if (!by_row.empty())
      tokens = static_cast<double>(std::accumulate(by_row.begin() + begin, by_row.begin() + end, int64_t{0}));
    weights.push_back(tokens / divisor);
  }
  return weights;
}

int64_t TrainBatch::NumMicrobatches(const Request& request) const {
  if (elastic_ != nullptr) return elastic_->num_passes();
  const int64_t most = (request.global_samples + world_size_ - 1) / world_size_;
  const int64_t wanted = state_.device_train_microbatch_size;
  return wanted > 0 ? std::max<int64_t>(1, (most + wanted - 1) / wanted) : 1;
}

std::vector<Microbatch> TrainBatch::PlanOf() const {
  return elastic_ != nullptr ? elastic_->Plan()
                             : PlanMicrobatches(state_.batch.num_samples, state_.device_train_microbatch_size);
}

void TrainBatch::RunMicrobatches(const Request& request, StepMessage& message) {
  const std::vector<Microbatch> plan = PlanOf();
  const std::vector<double> weights = Weights(request, plan, message);
  // An algorithm may change the batch before the forward pass, and a second try must start from the original.
  const bool keep = plan.size() > 1 || state_.auto_microbatch.has_value() || elastic_ != nullptr;
  Batch whole = keep ? state_.batch : Batch{};
  const auto restore = absl::MakeCleanup([&] {
    if (keep) state_.batch = std::move(whole);
  });
  for (size_t i = 0; i < weights.size(); ++i) {
    const bool last = i + 1 == plan.size();
    const bool counts = weights[i] > 0;  // a microbatch of padding has no mean loss
    if (sync_ != nullptr) sync_->BeginPass();
    if (plan[i].samples() == 0) {  // a leaf without samples
      sync_->EndPass();
      continue;
    }
    if (elastic_ != nullptr) elastic_->BeginLeaf(plan[i].leaf, losses_);
    TakeRows(whole, plan[i]);
    WithPlace("forward", [&] { RunForward(request.measure); });
    if (counts) losses_.Add(weights[i], state_.loss, state_.loss_parts);
    if (last && sync_ != nullptr && elastic_ == nullptr) {
      FillTail(message);
      sync_->Arm(counts ? state_.loss : at::Tensor());
    }
    if (counts) WithPlace("backward", [&] { RunBackward(weights[i]); });
    if (sync_ != nullptr) sync_->EndPass();
    if (elastic_ != nullptr) elastic_->EndLeaf(plan[i].leaf, losses_);
  }
}

template <typename Fn>
void TrainBatch::WithPlace(absl::string_view stage, const Fn& fn) {
  try {
    fn();
  } catch (...) {
    RethrowWithPlace(
        state_, absl::StrCat(stage, " of batch ", state_.timestamp.batch + 1, " (epoch ", state_.timestamp.epoch, ")"));
  }
}

void TrainBatch::TakeRows(const Batch& whole, const Microbatch& microbatch) {
  if (elastic_ != nullptr) {
    state_.batch = ElasticStep::Rows(whole, microbatch);
  } else if (microbatch.samples() < whole.num_samples) {
    state_.batch = whole.Slice(microbatch.begin, microbatch.end);
  }
}

void TrainBatch::RunForward(bool measure) {
  const AutocastScope autocast(state_.precision, state_.device.type());
  ThrowIfError(engine_.Run(Event::kBeforeForward));
  {
    const TraceSpan span(state_.tracer, kForwardSpan);
    state_.outputs = state_.model->forward(state_.batch);
  }
  ThrowIfError(engine_.Run(Event::kAfterForward));
  ThrowIfError(engine_.Run(Event::kBeforeLoss));
  ComputeLoss();
  ThrowIfError(engine_.Run(Event::kAfterLoss));
  if (!measure) return;
  const torch::NoGradGuard no_grad;
  for (const auto& metric : state_.train_metrics) metric->Update(state_.outputs.detach(), state_.batch);
}

void TrainBatch::ComputeLoss() {
  const TraceSpan span(state_.tracer, kLossSpan);
  Loss loss = state_.model->loss(state_.outputs, state_.batch);
  state_.loss = std::move(loss.total);
  state_.loss_parts = std::move(loss.parts);
  TORCH_CHECK_VALUE(state_.loss.defined() && state_.loss.numel() == 1,
                    "the model's loss must be a scalar (the mean over the batch), it has shape ",
                    state_.loss.defined() ? state_.loss.sizes() : at::IntArrayRef{0});
}

void TrainBatch::RunBackward(double weight) {
  ThrowIfError(engine_.Run(Event::kBeforeBackward));
  // Backward starts from the weight instead of 1, which scales the loss without an operation.
  const TraceSpan span(state_.tracer, kBackwardSpan);
  weight_.fill_(weight * loss_scale());
  state_.loss.backward(state_.loss.dim() == 0 && state_.loss.scalar_type() == at::kFloat
                           ? weight_
                           : weight_.to(state_.loss.scalar_type()).expand_as(state_.loss));
  ThrowIfError(engine_.Run(Event::kAfterBackward));
}

void TrainBatch::OnOutOfMemory(const StepMessage& message) {
  TakeFailingModule();
  const absl::Status status = StatusFromCurrentException();
  if (!IsOutOfMemory(status)) throw;
  state_.outputs.reset();
  state_.loss.reset();
  state_.loss_parts.clear();
  const bool too_late = sync_ != nullptr && sync_->tail_sent();
  if (!state_.auto_microbatch || too_late) throw StatusError(status);
}

double TrainBatch::FactorAfterSum(const Request& request, const StepMessage& agreed) const {
  if (!state_.accumulate_train_batch_on_tokens) return 1;
  TORCH_CHECK_VALUE(agreed.loss_tokens > 0,
                    "accumulate_train_batch_on_tokens: the global batch has no token that generates loss (all targets "
                    "are -100)");
  return sync_ == nullptr ? 1 : TokenScale(request.global_samples) / static_cast<double>(agreed.loss_tokens);
}

}  // namespace composer
