// The step that may be a graph (cuda_graphs): what it must know is decided on the device, the update too, and the host
// reads afterwards what became of it. Forward, loss and backward are those of every step (train_batch_passes.cc).
// SPDX-License-Identifier: Apache-2.0
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/types.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "trainer/core/torch_status.h"
#include "trainer/loop/graph_choice.h"
#include "trainer/loop/train_batch.h"
#include "trainer/metrics/metric_sums.h"

namespace composer {
namespace {

constexpr Event kInsideStep[] = {Event::kBeforeTrainBatch, Event::kBeforeForward,  Event::kAfterForward,
                                 Event::kBeforeLoss,       Event::kAfterLoss,      Event::kBeforeBackward,
                                 Event::kAfterBackward,    Event::kAfterTrainBatch};

bool ActsInsideStep(const EventSet& events) {
  return std::any_of(std::begin(kInsideStep), std::end(kInsideStep), [&](Event event) { return events.Has(event); });
}

bool OnDefaultStream(at::Device device) {
  const c10::impl::VirtualGuardImpl guard(device.type());
  return guard.getStream(device) == guard.getDefaultStream(device);
}

// Adds what of the optimizer is part of a graph: hyperparameters, and where the parameters are.
void AppendFixedNumbers(const Optimizer& optimizer, std::vector<uint64_t>& numbers) {
  uint64_t places = 0;
  for (const ParamGroup& group : optimizer.groups()) {
    for (const double number : {group.momentum, group.weight_decay, group.initial_lr})
      numbers.push_back(std::bit_cast<uint64_t>(number));
    for (const at::Tensor& param : group.params)
      places = places * 1099511628211U + reinterpret_cast<uintptr_t>(param.const_data_ptr());
  }
  numbers.push_back(places);
}

}  // namespace

GraphFacts TrainBatch::FactsForGraphs(bool wraps_activations) const {
  const StepSettings& settings = state_.settings;
  const DataSpec& spec = SpecOf(state_.dataloader);
  GraphFacts facts;
  facts.device_captures = !state_.identity.device.is_cpu();
  facts.on_default_stream = facts.device_captures && OnDefaultStream(state_.identity.device);
  facts.sums_on_host = !sync_->is_alone() && !sync_->can_queue();
  facts.fp16_scaler = settings.scaler.has_value();
  facts.auto_microbatch = settings.auto_microbatch.has_value();
  facts.on_tokens = settings.accumulate_train_batch_on_tokens;
  facts.elastic = plan_->sums_at_the_end();
  facts.wraps_activations = wraps_activations;
  facts.transforms_microbatch = spec.microbatch_transform || spec.split_batch || spec.get_num_samples_in_batch;
  const auto* const rates = dynamic_cast<const DeviceRates*>(state_.optimizer.get());
  if (rates == nullptr || !rates->can_use_device_rates() || state_.optimizer->needs_closure())
    facts.host_optimizer = state_.optimizer->name();
  for (const auto& algorithm : state_.algorithms) facts.algorithms.push_back(algorithm->name());
  for (const auto& callback : state_.callbacks) {
    if (ActsInsideStep(callback->events())) facts.step_callbacks.push_back(callback->name());
  }
  return facts;
}

void TrainBatch::BeginGraphs(GraphCapture& capture, bool wraps_activations) {
  graphs_.reset();
  const std::string why_not = WhyNoGraphs(FactsForGraphs(wraps_activations));
  if (!why_not.empty()) {
    if (state_.identity.rank == 0) LOG(WARNING) << "cuda_graphs: no step is captured: " << why_not;
    return;
  }
  graphs_ = std::make_unique<StepGraphs>(capture, state_.identity.rank == 0, !sync_->is_alone());
  sync_->PrepareToQueue();
  rates_ = dynamic_cast<DeviceRates*>(state_.optimizer.get());
  rates_->UseDeviceRates();
}

StepMessage TrainBatch::RunQueued() {
  const Batch loaded = state_.batch;
  const torch::AutoGradMode with_gradients(true);
  // Once in a step: a graph's random numbers go on from one seed.
  plan_->BeginPart({0, loaded.num_samples, 0}, 0, losses_);
  graph_settings_ = {static_cast<uint64_t>(request_.global_samples), request_.measure ? uint64_t{1} : 0,
                     static_cast<uint64_t>(state_.settings.device_train_microbatch_size)};
  AppendFixedNumbers(*state_.optimizer, graph_settings_);
  const QueuedStep& step = graphs_->Step(loaded, graph_settings_, state_.tracer == nullptr,
                                         [this](const Batch& batch) { return Queue(batch); });
  state_.batch = loaded;
  replayed_ = step.replayed;
  ShowQueued(step);
  return ReadQueued(step, loaded.num_samples);
}

QueuedStep TrainBatch::Queue(const Batch& batch) {
  state_.batch = batch;
  evaluations_ = 0;
  queues_ = true;
  engine_.SetSeeding(false);
  const auto done = absl::MakeCleanup([this] {
    queues_ = false;
    engine_.SetSeeding(true);
  });
  if (state_.settings.nan.on_nan() == OnNan::kSkip) SaveBuffers();
  const StepMessage message = Accumulate(/*sends=*/true);
  QueuedStep step;
  step.outputs = state_.outputs;
  step.loss = state_.loss;
  step.loss_parts = state_.loss_parts;
  step.unfit = SumsOnHost();
  const torch::NoGradGuard no_grad;
  at::Tensor skips = sync_->is_alone() ? QueueAlone(step) : QueueSums(message, step);
  if (state_.settings.nan.on_nan() == OnNan::kContinue) skips.zero_();
  ThrowIfError(engine_.Run(Event::kAfterTrainBatch));
  state_.optimizer->StepUnless(skips);
  for (const at::Tensor& param : params_) step.gradients.push_back(param.grad());
  return step;
}

std::string TrainBatch::SumsOnHost() const {
  for (const auto& metric : state_.train_metrics) {
    const auto* const summed = dynamic_cast<const SummedMetric*>(metric.get());
    if (request_.measure && (summed == nullptr || !summed->on_device()))
      return absl::StrCat("the train metric ", metric->name(), " sums on the host");
  }
  return "";
}

at::Tensor TrainBatch::QueueAlone(QueuedStep& step) {
  ReadSums(step.read);
  alone_->Finish();
  const at::Tensor verdict = torch::zeros({1}, weight_.options());
  alone_->WriteTo(verdict);
  step.read.Add(verdict, [this](absl::Span<const double> found) { queued_finite_ = found[0] == 0; });
  step.numbers = step.read.Gather();
  // The first number is the loss; times 0 it is NaN if it is not finite.
  return (step.numbers.narrow(0, 0, 1) * 0 + verdict).ne(0).to(at::kFloat);
}

at::Tensor TrainBatch::QueueSums(const StepMessage& message, QueuedStep& step) {
  if (message.trained_samples == 0) FillTail(message);  // else RunPasses has
  if (losses_.part_names().size() > StepMessage::kMaxLossParts) step.unfit = "the model has many losses";
  const GradientSync::QueuedSums sums = sync_->QueueFinish();
  step.read.Add(sums.numbers, [this](absl::Span<const double> numbers) {
    sync_->TakeQueued(numbers);
    queued_finite_ = sync_->gradients_finite();
  });
  step.numbers = step.read.Gather();
  step.prepare = [this, sent = sync_->sent()] {
    sync_->SendAgain(sent);
    StepMessage own = request_.message;
    own.trained_samples = state_.batch.num_samples;
    own.Encode(sync_->tail().first(StepMessage::kLength));
  };
  const at::Tensor loss = sums.numbers.narrow(0, StepMessage::kLossFlag, 1);
  return (loss * 0 + sums.numbers.narrow(0, sums.verdict, 1)).ne(0).to(at::kFloat);
}

void TrainBatch::ShowQueued(const QueuedStep& step) {
  state_.outputs = step.outputs;
  state_.loss = step.loss;
  state_.loss_parts = step.loss_parts;
  for (size_t i = 0; i < params_.size(); ++i) params_[i].mutable_grad() = step.gradients[i];
}

StepMessage TrainBatch::ReadQueued(const QueuedStep& step, int64_t samples) {
  if (step.replayed) {
    CheckFrozen();
    losses_.Reset();
    for (const auto& metric : state_.train_metrics) metric->Reset();
  }
  step.read.Hand(step.numbers);
  StepMessage agreed = request_.message;
  if (sync_->is_alone()) {
    agreed.trained_samples = samples;
    agreed.weighted_loss = losses_.total();
  } else {
    agreed = ReadTail();
  }
  TORCH_CHECK(FactorAfterSum(agreed) == 1, "cuda_graphs: the ranks have trained on ", agreed.trained_samples,
              " samples of a batch of ", request_.global_samples);
  Settle(agreed, 1);
  if (std::isfinite(agreed.weighted_loss) && queued_finite_) {
    state_.settings.nan.OnStep(true);
  } else {
    MayUpdateWithNan(agreed.weighted_loss);  // the device has decided alike
  }
  return agreed;
}

}  // namespace composer
