// SPDX-License-Identifier: Apache-2.0
#include "trainer/elastic/elastic_step.h"

#include <ATen/ATen.h>
#include <torch/types.h>

#include <algorithm>
#include <utility>

#include "trainer/collectives/tree_sum.h"
#include "trainer/core/random.h"

namespace composer {

ElasticStep::ElasticStep(State& state, const ElasticOptions& options, std::vector<at::Tensor> params,
                         Communicator& communicator)
    : state_(state),
      options_(options),
      params_(std::move(params)),
      communicator_(communicator),
      buffers_(state.model->buffers()) {
  TORCH_CHECK_VALUE(
      communicator.sums_in_tree_order(),
      "determinism: elastic needs sums over ranks in its own order, which NCCL does not have; use device: cpu");
  for (const at::Tensor& buffer : buffers_) {
    start_buffers_.push_back(buffer.clone());
    first_buffers_.push_back(buffer.clone());
  }
  size_t width = 2 + StepMessage::kMaxLossParts;
  for (const auto& metric : state_.train_metrics) width += metric->sums().size();
  totals_.resize(width);
}

Batch ElasticStep::Rows(const Batch& whole, const Microbatch& microbatch) const {
  Batch rows = SplitOf(state_, whole, microbatch);
  if (rows.inputs.defined()) rows.inputs = rows.inputs.clone();
  if (rows.targets.defined()) rows.targets = rows.targets.clone();
  for (auto& [name, tensor] : rows.extra) tensor = tensor.clone();
  for (auto& [name, list] : rows.ragged) {
    for (at::Tensor& tensor : list) tensor = tensor.clone();
  }
  rows.num_loss_tokens = -1;
  return rows;
}

void ElasticStep::BeginStep(int64_t global_samples) {
  global_samples_ = global_samples;
  leaves_ = NumLeaves(global_samples, options_.virtual_shards, state_.settings.device_train_microbatch_size);
  sum_.Take();
  next_pass_ = 0;
  more_parts_.clear();
  numbers_.assign(static_cast<size_t>(leaves_) * totals_.size(), 0);
  if (!buffers_.empty()) at::_foreach_copy_(start_buffers_, buffers_);
}

std::vector<Microbatch> ElasticStep::Plan(int64_t samples) const {
  std::vector<Microbatch> plan = PlanLeaves(options_.place, leaves_, global_samples_);
  TORCH_CHECK_VALUE(samples == (plan.empty() ? 0 : plan.back().end),
                    "determinism: elastic: an algorithm changed the number of samples of this rank's batch from ",
                    plan.empty() ? 0 : plan.back().end, " to ", samples,
                    ", and which samples remain then depends on the number of ranks");
  return plan;
}

int64_t ElasticStep::BufferVersions() const {
  int64_t sum = 0;
  for (const at::Tensor& buffer : buffers_) sum += static_cast<int64_t>(buffer._version());
  return sum;
}

void ElasticStep::BeginPart(const Microbatch& leaf, int64_t /*index*/, LossSums& losses) {
  SeedForMicrobatch(state_.identity.seed, leaf.leaf, state_.timestamp.batch, 0);
  for (const at::Tensor& param : params_) param.mutable_grad().reset();
  for (const auto& metric : state_.train_metrics) metric->Reset();
  losses.Reset();
  if (next_pass_ > 0 && !buffers_.empty()) at::_foreach_copy_(buffers_, start_buffers_);
  versions_ = BufferVersions();
}

void ElasticStep::SkipTo(int64_t pass) {
  for (; next_pass_ < pass; ++next_pass_) sum_.Add(TreeAccumulator::Term(params_.size()));
}

void ElasticStep::EndPart(const Microbatch& microbatch, LossSums& losses) {
  const int64_t leaf = microbatch.leaf;
  const bool changed_buffers = BufferVersions() != versions_;
  if (leaf == first_leaf() && !buffers_.empty()) at::_foreach_copy_(first_buffers_, buffers_);
  const int64_t of_replica = leaves_ / options_.place.degrees.replicate;
  SkipTo(leaf % of_replica / options_.place.degrees.shard);
  ++next_pass_;
  TreeAccumulator::Term gradients;
  for (const at::Tensor& param : params_) {
    gradients.push_back(param.grad());
    param.mutable_grad().reset();
  }
  sum_.Add(std::move(gradients));
  double* row = &numbers_[static_cast<size_t>(leaf) * totals_.size()];
  *row++ = losses.total();
  const std::vector<double>& parts = losses.parts();
  const size_t sent = std::min<size_t>(parts.size(), StepMessage::kMaxLossParts);
  std::copy_n(parts.begin(), sent, row);
  row += StepMessage::kMaxLossParts;
  more_parts_.resize(parts.size() - sent);
  for (size_t i = 0; i < more_parts_.size(); ++i) more_parts_[i] += parts[sent + i];
  for (const auto& metric : state_.train_metrics) {
    for (const double sum : metric->sums()) *row++ = sum;
  }
  *row = changed_buffers && leaf == first_leaf() ? 1 : 0;
}

void ElasticStep::FinishParts() {
  const torch::NoGradGuard no_grad;
  SkipTo(num_passes());
  TreeAccumulator::Term own = sum_.Take();
  for (size_t i = 0; i < params_.size(); ++i) {
    const bool zeros = !own[i].defined() && params_[i].requires_grad();  // a frozen parameter has no gradient
    params_[i].mutable_grad() = zeros ? at::zeros_like(params_[i]) : std::move(own[i]);
  }
}

void ElasticStep::SumOverRanks(StepMessage& agreed) {
  communicator_.AllReduceSum(absl::MakeSpan(numbers_));
  std::vector<const void*> rows;
  for (size_t i = 0; i < numbers_.size(); i += totals_.size()) rows.push_back(&numbers_[i]);
  TreeSum(at::kDouble, rows, totals_.data(), static_cast<int64_t>(totals_.size()));
  const double* next = totals_.data();
  agreed.weighted_loss = *next++;
  for (double& part : agreed.weighted_parts) part = *next++;
  for (const auto& metric : state_.train_metrics) {
    for (double& sum : metric->sums()) sum = *next++;
  }
  SettleBuffers(*next > 0);
}

void ElasticStep::SettleBuffers(bool changed) {
  if (buffers_.empty()) return;
  const torch::NoGradGuard no_grad;
  const int root = RankOfLeaf(first_leaf(), leaves_, options_.place.degrees);
  if (changed && communicator_.world_size() > 1) {
    for (const at::Tensor& buffer : first_buffers_) {
      const at::Tensor there = buffer.to(communicator_.device()).contiguous();
      communicator_.Broadcast(there, root);
      if (!there.is_same(buffer)) buffer.copy_(there);
    }
  }
  at::_foreach_copy_(buffers_, changed ? first_buffers_ : start_buffers_);
}

}  // namespace composer
