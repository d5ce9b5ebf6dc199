// SPDX-License-Identifier: Apache-2.0
#include "trainer/elastic_step.h"

#include <ATen/ATen.h>
#include <torch/torch.h>

#include "trainer/core/random.h"

namespace composer {

ElasticStep::ElasticStep(State& state, int shards, std::vector<at::Tensor> params, Communicator& communicator)
    : state_(state),
      shards_(shards),
      params_(std::move(params)),
      communicator_(communicator),
      buffers_(state.model->buffers()) {
  TORCH_CHECK_VALUE(
      communicator.sums_in_tree_order(),
      "determinism: elastic needs sums over ranks in its own order, which NCCL does not have; use device: "
      "cpu");
  for (const at::Tensor& buffer : buffers_) first_buffers_.push_back(buffer.clone());
}

std::vector<Microbatch> ElasticStep::Plan(int64_t global_samples, int64_t microbatch_size) const {
  return PlanVirtualShards(global_samples, communicator_.rank(), communicator_.world_size(), shards_, microbatch_size);
}

Batch ElasticStep::Rows(const Batch& batch, const Microbatch& microbatch) {
  Batch rows = batch.Slice(microbatch.begin, microbatch.end);
  rows.inputs = rows.inputs.clone();
  if (rows.targets.defined()) rows.targets = rows.targets.clone();
  for (auto& [name, tensor] : rows.extra) tensor = tensor.clone();
  return rows;
}

void ElasticStep::BeginStep() {
  sum_.Take();
  if (!buffers_.empty()) at::_foreach_copy_(first_buffers_, buffers_);
  next_shard_ = first_shard();
  size_t length = 1 + StepMessage::kMaxLossParts;
  for (const auto& metric : state_.train_metrics) length += metric->sums().size();
  numbers_.assign(length, 0);
}

void ElasticStep::BeginShard(int shard, LossSums& losses) {
  SeedForStep(state_.seed, shard, state_.timestamp.batch);
  for (const at::Tensor& param : params_) param.mutable_grad().reset();
  for (const auto& metric : state_.train_metrics) metric->Reset();
  losses.Reset();
}

void ElasticStep::SkipTo(int shard) {
  for (; next_shard_ < shard; ++next_shard_)
    sum_.Add({std::vector<at::Tensor>(params_.size()), std::vector<double>(numbers_.size())});
}

void ElasticStep::EndShard(int shard, LossSums& losses) {
  SkipTo(shard);
  TreeTerm term;
  for (const at::Tensor& param : params_) {
    term.tensors.push_back(param.grad());
    param.mutable_grad().reset();
  }
  term.numbers.push_back(losses.total());
  term.numbers.insert(term.numbers.end(), losses.parts().begin(), losses.parts().end());
  for (const auto& metric : state_.train_metrics) {
    const absl::Span<const double> sums = metric->sums();
    term.numbers.insert(term.numbers.end(), sums.begin(), sums.end());
  }
  sum_.Add(std::move(term));
  ++next_shard_;
  if (shard == first_shard() && !buffers_.empty()) at::_foreach_copy_(first_buffers_, buffers_);
}

void ElasticStep::FinishShards() {
  const torch::NoGradGuard no_grad;
  SkipTo(first_shard() + shards_per_rank());
  TreeTerm own = sum_.Take();
  for (size_t i = 0; i < params_.size(); ++i) params_[i].mutable_grad() = std::move(own.tensors[i]);
  numbers_ = std::move(own.numbers);
  if (!buffers_.empty()) at::_foreach_copy_(buffers_, first_buffers_);
}

void ElasticStep::SumOverRanks(StepMessage& agreed) {
  communicator_.AllReduceSum(absl::MakeSpan(numbers_));
  size_t next = 1;
  for (float& part : agreed.weighted_parts) part = static_cast<float>(numbers_[next++]);
  for (const auto& metric : state_.train_metrics) {
    for (double& sum : metric->sums()) sum = numbers_[next++];
  }
}

}  // namespace composer
