// How a step's gradients come about: the rank's batch goes through forward, loss and backward in microbatches. What
// becomes of them is in train_batch_update.cc.
// SPDX-License-Identifier: Apache-2.0
#include <torch/types.h>

#include <algorithm>
#include <bit>
#include <numeric>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "trainer/core/error_place.h"
#include "trainer/core/torch_status.h"
#include "trainer/loop/autocast.h"
#include "trainer/loop/train_batch.h"

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

std::string NamesOfAll(const std::vector<std::unique_ptr<Algorithm>>& algorithms) {
  std::string names;
  for (const auto& algorithm : algorithms) absl::StrAppend(&names, names.empty() ? "" : ", ", algorithm->name());
  return names;
}

}  // namespace

void TrainBatch::ReadAlgorithms(DdpOptions& ddp, bool alone) {
  edits_batches_ = !state_.algorithms.empty();
  for (const auto& algorithm : state_.algorithms) {
    ddp.find_unused_parameters |= algorithm->find_unused_parameters();
    agrees_on_passes_ |= algorithm->adds_samples();
    creates_graph_ |= algorithm->backwards_create_graph();
    TORCH_CHECK_VALUE(alone || !algorithm->backwards_create_graph(), "algorithms: ", algorithm->name(),
                      " differentiates through gradients (backwards_create_graph), and gradients that are summed over "
                      "ranks have no graph; it can run on one rank without sharding");
  }
}

void TrainBatch::CountRows() {
  Batch& batch = state_.batch;
  const DataSpec& spec = SpecOf(state_.dataloader);
  if (spec.get_num_samples_in_batch) batch.num_samples = spec.get_num_samples_in_batch(batch);
  if (spec.get_num_samples_in_batch || spec.split_batch) return;  // rows need not be samples
  if (!batch.inputs.defined() || batch.inputs.dim() == 0 || batch.inputs.size(0) == batch.num_samples) return;
  const int64_t rows = batch.inputs.size(0);
  TORCH_CHECK_VALUE(!batch.targets.defined() || (batch.targets.dim() > 0 && batch.targets.size(0) == rows),
                    "after algorithms changed it, batch ", state_.timestamp.batch + 1, " has ", rows, " inputs and ",
                    batch.targets.dim() > 0 ? batch.targets.size(0) : 1, " targets");
  for (const auto& [name, tensor] : batch.extra) {
    TORCH_CHECK_VALUE(tensor.dim() > 0 && tensor.size(0) == rows, "after algorithms changed it, batch ",
                      state_.timestamp.batch + 1, " has ", rows, " inputs, and its `", name, "` has shape ",
                      tensor.sizes());
  }
  batch.num_samples = rows;
  batch.sample_ids.clear();  // which rows are left is not known
  batch.num_loss_tokens = -1;
}

int64_t TrainBatch::AgreeOnPasses(int64_t planned) {
  const int64_t own = plan_->NumPasses(state_.batch.num_samples);
  if (sync_->is_alone() || plan_->sums_at_the_end()) return std::max(own, planned);
  if (!agrees_on_passes_) {
    TORCH_CHECK_VALUE(own <= planned, "an algorithm made batch ", state_.timestamp.batch + 1, " larger, to ",
                      state_.batch.num_samples, " samples, and its adds_samples() is false");
    return planned;
  }
  std::vector<double> of_ranks(static_cast<size_t>(communicator_.world_size()));
  of_ranks[static_cast<size_t>(communicator_.rank())] = static_cast<double>(own);
  communicator_.AllReduceSum(absl::MakeSpan(of_ranks));
  return std::max<int64_t>(1, static_cast<int64_t>(*std::max_element(of_ranks.begin(), of_ranks.end())));
}

std::vector<double> TrainBatch::Weights(const std::vector<Microbatch>& plan, StepMessage& message) const {
  const int64_t samples = state_.batch.num_samples;
  std::vector<double> weights;
  if (!state_.settings.accumulate_train_batch_on_tokens) {
    const auto whole = static_cast<double>(sync_->is_alone() ? samples : request_.global_samples);
    for (const Microbatch& microbatch : plan) weights.push_back(static_cast<double>(microbatch.samples()) / whole);
    return weights;
  }
  std::vector<int64_t> by_row = LossTokensByRow(state_.batch);
  message.loss_tokens = CountLossTokens(state_.batch);
  // If the dataset counts in its own way, tokens are taken in proportion to the rows.
  if (std::accumulate(by_row.begin(), by_row.end(), int64_t{0}) != message.loss_tokens) by_row.clear();
  TORCH_CHECK_VALUE(!plan_->sums_at_the_end() || !by_row.empty(),
                    "determinism: elastic with accumulate_train_batch_on_tokens counts the targets that are not -100; "
                    "the dataset counts the tokens of a batch in a way of its own");
  const double divisor =
      sync_->is_alone() ? static_cast<double>(message.loss_tokens) : TokenScale(request_.global_samples);
  for (const auto& [begin, end, leaf] : plan) {
    double tokens =
        static_cast<double>(message.loss_tokens) * static_cast<double>(end - begin) / static_cast<double>(samples);
    if (!by_row.empty())
      tokens = static_cast<double>(std::accumulate(by_row.begin() + begin, by_row.begin() + end, int64_t{0}));
    weights.push_back(tokens / divisor);
  }
  return weights;
}

double TrainBatch::FactorAfterSum(const StepMessage& agreed) const {
  if (state_.settings.accumulate_train_batch_on_tokens) {
    TORCH_CHECK_VALUE(agreed.loss_tokens > 0,
                      "accumulate_train_batch_on_tokens: the global batch has no token that generates loss (all "
                      "targets are -100)");
    return sync_->is_alone() ? 1 : TokenScale(request_.global_samples) / static_cast<double>(agreed.loss_tokens);
  }
  TORCH_CHECK_VALUE(agreed.trained_samples > 0, NamesOfAll(state_.algorithms), " left no sample of batch ",
                    state_.timestamp.batch + 1);
  if (sync_->is_alone() || agreed.trained_samples == request_.global_samples) return 1;
  return static_cast<double>(request_.global_samples) / static_cast<double>(agreed.trained_samples);
}

void TrainBatch::RunPasses(bool sends, StepMessage& message) {
  const std::vector<Microbatch> plan = plan_->Plan(state_.batch.num_samples);
  if (state_.batch.num_samples == 0) return;
  const std::vector<double> weights = Weights(plan, message);
  LossSums& losses = evaluations_ == 1 ? losses_ : repeated_losses_;
  // An algorithm may change the batch before the forward pass, and another try must start from the original.
  const bool keep = plan.size() > 1 || state_.settings.auto_microbatch || state_.optimizer->needs_closure() ||
                    plan_->sums_at_the_end();
  const Batch whole = keep ? state_.batch : Batch{};
  const auto restore = absl::MakeCleanup([&] {
    if (keep) state_.batch = whole;
  });
  for (size_t i = 0; i < plan.size(); ++i) {
    const bool counts = weights[i] > 0;  // a microbatch of padding has no mean loss
    sync_->BeginPass();
    if (plan[i].samples() > 0) {
      if (!queues_) plan_->BeginPart(plan[i], static_cast<int64_t>(i), losses);
      if (keep) state_.batch = plan_->Rows(whole, plan[i]);
      WithPlace("forward", [&] { RunForward(); });
      if (counts) {
        ThrowIfError(engine_.Run(Event::kBeforeBackward));
        losses.Add(weights[i], state_.loss, state_.loss_parts);
      }
      if (sends && i + 1 == plan.size() && !plan_->sums_at_the_end()) {
        FillTail(message);
        sync_->Arm(counts ? state_.loss : at::Tensor());
      }
      if (counts) WithPlace("backward", [&] { RunBackward(weights[i]); });
    }
    sync_->EndPass();
    if (plan[i].samples() > 0) plan_->EndPart(plan[i], losses);
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

void TrainBatch::RunForward() {
  const bool measure = request_.measure && evaluations_ == 1 && !state_.train_metrics.empty();
  if (const DataSpec& spec = SpecOf(state_.dataloader); spec.microbatch_transform)
    state_.batch = spec.microbatch_transform(std::move(state_.batch));
  const Batch given = measure && edits_batches_ ? state_.batch : Batch{};
  ThrowIfError(engine_.Run(Event::kBeforeForward));
  {
    const AutocastScope autocast(state_.settings.precision, state_.identity.device.type());
    const TraceSpan span(state_.tracer, kForwardSpan);
    state_.outputs = state_.model->forward(state_.batch);
  }
  ThrowIfError(engine_.Run(Event::kAfterForward));
  ThrowIfError(engine_.Run(Event::kBeforeLoss));
  ComputeLoss();
  ThrowIfError(engine_.Run(Event::kAfterLoss));
  if (!measure) return;
  const torch::NoGradGuard no_grad;
  const Batch& seen = edits_batches_ ? given : state_.batch;
  for (const auto& metric : state_.train_metrics) metric->Update(state_.outputs.Detached(), seen);
}

void TrainBatch::ComputeLoss() {
  const AutocastScope autocast(state_.settings.precision, state_.identity.device.type());
  const TraceSpan span(state_.tracer, kLossSpan);
  Loss loss = state_.loss_function ? state_.loss_function(state_.outputs, state_.batch)
                                   : state_.model->loss(state_.outputs, state_.batch);
  state_.loss = std::move(loss.total);
  state_.loss_parts = std::move(loss.parts);
  TORCH_CHECK_VALUE(state_.loss.defined() && state_.loss.numel() == 1,
                    "the model's loss must be a scalar (the mean over the batch), it has shape ",
                    state_.loss.defined() ? state_.loss.sizes() : at::IntArrayRef{0});
}

void TrainBatch::RunBackward(double weight) {
  {
    // Backward starts from the weight instead of 1, which scales the loss without an operation.
    const TraceSpan span(state_.tracer, kBackwardSpan);
    weight_.fill_(weight * loss_scale());
    const bool plain = state_.loss.dim() == 0 && state_.loss.scalar_type() == at::kFloat;
    state_.loss.backward(plain ? weight_ : weight_.to(state_.loss.scalar_type()).expand_as(state_.loss),
                         /*retain_graph=*/creates_graph_, creates_graph_);
  }
  ThrowIfError(engine_.Run(Event::kAfterBackward));
}

}  // namespace composer
