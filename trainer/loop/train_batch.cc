// SPDX-License-Identifier: Apache-2.0
#include "trainer/loop/train_batch.h"

#include <torch/types.h>

#include <cmath>

#include "trainer/core/error_place.h"
#include "trainer/core/torch_status.h"
#include "trainer/elastic/elastic_step.h"
#include "trainer/loop/check_in_backward.h"
#include "trainer/optim/model_params.h"
#include "trainer/parallel/ddp/gradient_reducer.h"
#include "trainer/parallel/tensor/tensor_parallel_sync.h"

namespace composer {
namespace {

std::vector<at::Tensor> TrainableOnce(const Model& model) {
  std::vector<at::Tensor> params = ParametersOnce(model);
  std::erase_if(params, [](const at::Tensor& param) { return !param.requires_grad(); });
  return params;
}

GradientReducer::Options ReducerOptions(const DdpOptions& ddp, int tail_length) {
  GradientReducer::Options options;
  options.first_bucket_bytes = ddp.first_bucket_bytes;
  options.bucket_bytes = ddp.bucket_bytes;
  options.gradient_compression = ddp.gradient_compression;
  options.find_unused_parameters = ddp.find_unused_parameters;
  options.sync_strategy = ddp.sync_strategy;
  options.order_by_graph = ddp.sync_strategy == DdpSyncStrategy::kSingleAutoSync;
  options.tail_length = tail_length;
  return options;
}

}  // namespace

int TrainBatch::TailLength(const State& state) {
  int length = StepMessage::kLength;
  for (const auto& metric : state.train_metrics)
    length += static_cast<int>(metric->sums().size()) * WireNumber::kLength;
  return length;
}

TrainBatch::TrainBatch(State& state, Engine& engine, Communicator& communicator, GradientSync* sync,
                       const DdpOptions& ddp, const ElasticOptions& elastic, Communicator* tensor)
    : state_(state),
      engine_(engine),
      communicator_(communicator),
      params_(TrainableOnce(*state.model)),
      sync_(sync),
      weight_(torch::ones({}, torch::device(state.identity.device))) {
  DdpOptions settled = ddp;
  const bool is_elastic = elastic.virtual_shards > 0;
  for (const auto& item : state.model->named_parameters()) {
    if (!item.value().requires_grad()) never_trained_.emplace_back(item.key(), item.value());
  }
  ReadAlgorithms(settled, communicator.world_size() == 1 && tensor == nullptr && sync == nullptr);
  plan_ = std::make_unique<PlainPlan>(state);
  if (is_elastic) {
    const std::vector<at::Tensor> summed_here = sync == nullptr ? params_ : std::vector<at::Tensor>();
    plan_ = std::make_unique<ElasticStep>(state, elastic, summed_here, communicator);
  }
  if (sync_ == nullptr) {
    if (communicator.world_size() > 1 || is_elastic) {
      own_sync_ = std::make_unique<GradientReducer>(params_, communicator, ReducerOptions(settled, TailLength(state)));
    } else {
      auto local = std::make_unique<LocalSync>(params_, TailLength(state));
      alone_ = local.get();
      own_sync_ = std::move(local);
    }
    sync_ = own_sync_.get();
  }
  ThrowIfError(BeginInBackward(state_, alone_ != nullptr && tensor == nullptr));
  if (tensor == nullptr) return;
  tensor_sync_ = std::make_unique<TensorParallelSync>(*sync_, *tensor);
  sync_ = tensor_sync_.get();
}

void TrainBatch::CheckFrozen() const {
  for (const auto& [name, param] : never_trained_) {
    TORCH_CHECK_VALUE(
        !param.requires_grad(), "parameter ", name, " requires a gradient now, but did not when the ",
        "optimizer and the sums over ranks were made, which therefore do not have it; make the model with "
        "a parameter that requires one, and freeze it from FIT_START on");
  }
}

StepMessage TrainBatch::Run(const Request& request) {
  request_ = request;
  // An algorithm may change the batch before a try that is discarded.
  const Batch given = state_.settings.auto_microbatch && edits_batches_ ? state_.batch : Batch{};
  evaluations_ = 0;
  out_of_memory_ = overflowed_ = state_.requests.skip_update = false;
  finite_ = true;
  agreed_.reset();
  replayed_ = false;
  if (rates_ != nullptr) rates_->WriteRates();
  if (graphs_ != nullptr) return RunQueued();
  if (state_.settings.auto_microbatch || state_.settings.nan.on_nan() == OnNan::kSkip) SaveBuffers();
  try {
    Optimizer& optimizer = *state_.optimizer;
    if (optimizer.needs_closure()) {
      optimizer.StepWith(*this);
    } else if (Evaluate(Gradients::kOverRanks)) {
      const TraceSpan span(state_.tracer, kOptimizerSpan);
      optimizer.Step();
    }
  } catch (const Discarded&) {
    Discard();
    if (edits_batches_) state_.batch = given;
    return *agreed_;
  }
  TORCH_CHECK(agreed_.has_value(), "the optimizer ", state_.optimizer->name(),
              " made a step without a loss over ranks");
  if (finite_ && !overflowed_) state_.settings.nan.OnStep(true);
  if (state_.settings.scaler) state_.settings.scaler->Update(!overflowed_);
  return *agreed_;
}

void TrainBatch::SaveBuffers() {
  if (!knows_buffers_) {
    buffers_ = state_.model->buffers();
    for (const at::Tensor& buffer : buffers_) saved_buffers_.push_back(at::empty_like(buffer));
    knows_buffers_ = true;
  }
  if (!buffers_.empty()) at::_foreach_copy_(saved_buffers_, buffers_);
}

std::optional<double> TrainBatch::Evaluate(Gradients gradients) {
  const torch::AutoGradMode with_gradients(true);
  const bool sends = gradients == Gradients::kOverRanks || !keeps_own();
  const StepMessage message = Accumulate(sends);
  if (sends) return SumAndCheck(message);
  PrepareGradients(1);  // what is not finite shows, on all ranks at once, in the next evaluation
  ThrowIfError(engine_.Run(Event::kAfterTrainBatch));
  return (evaluations_ == 1 ? losses_ : repeated_losses_).total();
}

StepMessage TrainBatch::Accumulate(bool sends) {
  try {
    ThrowIfError(engine_.Run(Event::kBeforeTrainBatch));
  } catch (...) {
    OnOutOfMemory();
    out_of_memory_ = true;
  }
  CheckFrozen();
  for (const at::Tensor& param : params_) param.mutable_grad().reset();
  if (++evaluations_ == 1) {
    losses_.Reset();
    for (const auto& metric : state_.train_metrics) metric->Reset();
  } else {
    repeated_losses_.Reset();
  }
  CountRows();
  StepMessage message = request_.message;
  message.trained_samples = state_.batch.num_samples;
  plan_->BeginStep(request_.global_samples);
  sync_->Trace(state_.tracer);
  const int ranks = communicator_.world_size();
  sync_->BeginStep(AgreeOnPasses(plan_->NumPasses((request_.global_samples + ranks - 1) / ranks)));
  try {
    if (!out_of_memory_) RunPasses(sends, message);
  } catch (...) {
    OnOutOfMemory();
    out_of_memory_ = true;
  }
  message.out_of_memory = out_of_memory_ ? 1 : 0;
  return message;
}

std::optional<double> TrainBatch::SumAndCheck(const StepMessage& message) {
  const StepMessage agreed = SumOverRanks(message);
  if (agreed.out_of_memory > 0) {
    agreed_ = agreed;
    throw Discarded();
  }
  const double factor = FactorAfterSum(agreed);
  const double loss = agreed.weighted_loss * factor;
  if (!agreed_) Settle(agreed, factor);
  bool may_update = PrepareGradients(factor);
  ThrowIfError(engine_.Run(Event::kAfterTrainBatch));
  overflowed_ = overflowed_ || !may_update;
  const bool gradients_finite = state_.settings.scaler || sync_->gradients_finite();
  if (may_update && !(std::isfinite(loss) && gradients_finite)) {
    finite_ = false;
    may_update = MayUpdateWithNan(loss);
  }
  return may_update && !state_.requests.skip_update ? std::optional<double>(loss) : std::nullopt;
}

void TrainBatch::OnOutOfMemory() {
  TakeFailingModule();
  const absl::Status status = StatusFromCurrentException();
  if (!IsOutOfMemory(status)) throw;
  state_.outputs.reset();
  state_.loss.reset();
  state_.loss_parts.clear();
  if (!state_.settings.auto_microbatch || sync_->tail_sent()) throw StatusError(status);
}

}  // namespace composer
