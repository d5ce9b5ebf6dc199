// SPDX-License-Identifier: Apache-2.0
#include "trainer/parallel/fsdp/flat_shard.h"

#include <torch/types.h>

#include <algorithm>

#include "trainer/init/deferred_ops.h"

namespace composer {
namespace {

using NamedParams = std::vector<std::pair<std::string, at::Tensor>>;

FlatLayout LayoutOf(const NamedParams& params, int ranks) {
  std::vector<FlatParam> flat;
  for (const auto& [name, param] : params) flat.push_back({name, param.sizes().vec()});
  return MakeFlatLayout(std::move(flat), ranks);
}

// Returns a tensor [n] whose storage has no memory until a MemoryPool gives it some.
at::Tensor WithoutMemory(int64_t numel, const at::TensorOptions& options) {
  at::Tensor tensor = at::empty({0}, options);
  const size_t bytes = static_cast<size_t>(numel) * tensor.element_size();
  c10::Storage storage(c10::Storage::use_byte_size_t(), bytes, at::DataPtr(nullptr, tensor.device()),
                       tensor.storage().allocator(), /*resizable=*/false);
  return tensor.set_(storage, 0, {numel}, {1});
}

// Returns a view of shape [1, …, 1, n] with `dims` dimensions.
at::Tensor PieceView(const at::Tensor& flat, int64_t offset, int64_t numel, int64_t dims) {
  std::vector<int64_t> shape(static_cast<size_t>(std::max<int64_t>(dims, 1)), 1);
  shape.back() = numel;
  return flat.narrow(0, offset, numel).view(shape);
}

}  // namespace

FlatShard::FlatShard(const NamedParams& params, bool trainable, const Options& options)
    : options_(options), trainable_(trainable), layout_(LayoutOf(params, options.shard->world_size())) {
  const torch::NoGradGuard no_grad;
  const at::TensorOptions original =
      params.empty() ? at::TensorOptions().device(options.shard->device()).dtype(at::kFloat)
                     : params[0].second.options().device(options.shard->device()).requires_grad(false);
  BuildParams(params, original);
  if (trainable) BuildGradients(original);
}

void FlatShard::BuildParams(const NamedParams& params, const at::TensorOptions& original) {
  const int rank = options_.shard->rank();
  shard_ = at::zeros({layout_.shard_numel}, options_.cpu_offload ? original.device(at::kCPU) : original);
  whole_ = WithoutMemory(layout_.numel(), original.dtype(options_.param_dtype));
  own_ = whole_.narrow(0, rank * layout_.shard_numel, layout_.shard_numel);
  whole_bytes_ = static_cast<int64_t>(whole_.nbytes());
  for (size_t i = 0; i < params.size(); ++i) {
    at::Tensor param = params[i].second;
    const FlatParam& flat = layout_.params[i];
    const FlatPiece piece = layout_.PieceOf(i, rank);
    pieces_.push_back(PieceView(shard_, piece.shard_offset, piece.numel(), param.dim()));
    views_.push_back(whole_.narrow(0, flat.offset, flat.numel).view(flat.shape));
    TakeFirstValues(param, piece, pieces_.back());
    params_.push_back(param);
  }
  whole_.storage().unsafeGetStorageImpl()->set_nbytes(0);
}

void FlatShard::TakeFirstValues(const at::Tensor& param, const FlatPiece& piece, const at::Tensor& place) {
  whole_before_bytes_ += param.is_meta() ? 0 : static_cast<int64_t>(param.nbytes());
  const at::Tensor values = options_.weights->Values(param, piece.numel() > 0);
  if (values.defined()) {
    making_bytes_ = std::max(making_bytes_, options_.weights->BytesFor(param));
    place.view(-1).copy_(values.reshape(-1).narrow(0, piece.begin, piece.numel()));
  }
  ReplaceData(param, place);
}

void FlatShard::BuildGradients(const at::TensorOptions& original) {
  const int64_t tail = options_.tail_length, shard = layout_.shard_numel, chunk = shard + tail;
  const int ranks = layout_.ranks, rank = options_.shard->rank();
  gradient_ = at::zeros({chunk}, shard_.options());
  passes_.Init(gradient_, /*in_tree_order=*/false);
  reduce_ = WithoutMemory(ranks * chunk, original.dtype(options_.reduce_dtype));
  own_reduce_ = reduce_.narrow(0, rank * chunk, chunk);
  reduce_bytes_ = static_cast<int64_t>(reduce_.nbytes());
  // Maps parts of the flat buffer, which has no tails, to parts of reduce_.
  const auto places = [&](int64_t begin, int64_t end) {
    std::vector<Segment> result;
    while (begin < end) {
      const int64_t owner = begin / shard, until = std::min(end, tail == 0 ? end : (owner + 1) * shard);
      result.push_back({begin, reduce_.narrow(0, begin + owner * tail, until - begin)});
      begin = until;
    }
    return result;
  };
  for (size_t i = 0; i < layout_.params.size(); ++i) {
    const FlatParam& param = layout_.params[i];
    segments_.push_back(places(param.offset, param.offset + param.numel));
    for (Segment& segment : segments_.back()) segment.begin -= param.offset;
    const FlatPiece piece = layout_.PieceOf(i, rank);
    gradient_pieces_.push_back(
        PieceView(gradient_, piece.shard_offset, piece.numel(), static_cast<int64_t>(param.shape.size())));
  }
  for (const auto& [begin, end] : layout_.Gaps()) {
    for (const Segment& segment : places(begin, end)) gaps_.push_back(segment.place);
  }
  for (int r = 0; r < ranks && tail > 0; ++r) tails_.push_back(reduce_.narrow(0, r * chunk + shard, tail));
  taken_.assign(layout_.params.size(), 0);
  reduce_.storage().unsafeGetStorageImpl()->set_nbytes(0);
}

int64_t FlatShard::largest_param_bytes() const {
  int64_t numel = 0;
  for (const FlatParam& param : layout_.params) numel = std::max(numel, param.numel);
  return numel * static_cast<int64_t>(whole_.element_size());
}

void FlatShard::StartUnshard() {
  if (state_ != WholeState::kNone || whole_bytes_ == 0) return;
  const torch::NoGradGuard no_grad;
  options_.pool->Fill(whole_, whole_bytes_);
  state_ = WholeState::kGathering;
  if (shard_.scalar_type() == whole_.scalar_type() && shard_.device() == whole_.device()) {
    options_.shard->set_unit(options_.unit);
    gather_ = options_.shard->StartAllGather(whole_, shard_);
  } else {
    own_.copy_(shard_, /*non_blocking=*/true);
    options_.shard->set_unit(options_.unit);
    gather_ = options_.shard->StartAllGather(whole_, own_);
  }
}

void FlatShard::Unshard() {
  StartUnshard();
  if (state_ != WholeState::kGathering) return;
  const torch::NoGradGuard no_grad;
  gather_->Wait();
  gather_.reset();
  state_ = WholeState::kWhole;
  for (size_t i = 0; i < params_.size(); ++i) params_[i].set_data(views_[i]);
}

void FlatShard::Reshard() {
  if (state_ == WholeState::kNone) return;
  const torch::NoGradGuard no_grad;
  if (gather_ != nullptr) gather_->Wait();  // the gather was started but nobody used it
  gather_.reset();
  for (size_t i = 0; i < params_.size(); ++i) params_[i].set_data(pieces_[i]);
  state_ = WholeState::kNone;
  options_.pool->Empty(whole_);
}

std::vector<at::Tensor> FlatShard::GatherWhole() {
  const torch::NoGradGuard no_grad;
  std::vector<at::Tensor> result;
  if (whole_bytes_ == 0) return result;
  const at::Tensor own = shard_.to(whole_.device());
  const at::Tensor all = at::empty({layout_.numel()}, own.options());
  options_.shard->set_unit(options_.unit);
  options_.shard->StartAllGather(all, own)->Wait();
  for (const FlatParam& param : layout_.params)
    result.push_back(
        all.narrow(0, param.offset, param.numel).view(param.shape).to(at::kCPU, all.scalar_type(), false, true));
  return result;
}

void FlatShard::TakeGradient(size_t index) {
  at::Tensor& grad = params_[index].mutable_grad();
  if (!grad.defined()) return;
  const torch::NoGradGuard no_grad;
  if (!reduce_has_memory_ && reduce_bytes_ > 0) options_.pool->Fill(reduce_, reduce_bytes_);
  reduce_has_memory_ = true;
  const at::Tensor flat = segments_[index].size() == 1 ? at::Tensor() : grad.reshape(-1);
  for (const Segment& segment : segments_[index]) {
    const at::Tensor place = flat.defined() ? segment.place : segment.place.view(grad.sizes());
    const at::Tensor part = flat.defined() ? flat.narrow(0, segment.begin, segment.place.numel()) : grad;
    if (taken_[index]) {
      place.add_(part);
    } else {
      place.copy_(part);
    }
  }
  grad.reset();
  if (!taken_[index]) ++num_taken_;
  taken_[index] = 1;
}

void FlatShard::FillRest() {
  for (const at::Tensor& gap : gaps_) gap.zero_();
  for (size_t i = 0; i < segments_.size() && num_taken_ < params_.size(); ++i) {
    if (taken_[i]) continue;
    for (const Segment& segment : segments_[i]) segment.place.zero_();
  }
}

void FlatShard::StartReduce(FiniteCheck& check, const at::Tensor& tail, const DeviceTail& device_tail) {
  const torch::NoGradGuard no_grad;
  if (!reduce_has_memory_ && reduce_bytes_ > 0) options_.pool->Fill(reduce_, reduce_bytes_);
  reduce_has_memory_ = true;
  FillRest();
  for (const at::Tensor& place : tails_) place.zero_();
  check.Add(reduce_);
  if (tail.defined()) {
    for (const at::Tensor& place : tails_) {
      place.copy_(tail, /*non_blocking=*/true);
      device_tail.CopyTo(place);
      check.WriteTo(place.narrow(0, tail.numel() - 1, 1));
    }
  }
  std::fill(taken_.begin(), taken_.end(), 0);
  num_taken_ = 0;
  options_.shard->set_unit(options_.unit);
  reducing_ = options_.shard->StartReduceScatterSum(own_reduce_, reduce_);
}

void FlatShard::FinishReduce(bool first, bool last) {
  if (reducing_ == nullptr) return;
  const torch::NoGradGuard no_grad;
  reducing_->Wait();
  reducing_.reset();
  passes_.Add(own_reduce_, first);
  if (last) passes_.Finish();
  if (reduce_bytes_ > 0) options_.pool->Empty(reduce_);
  reduce_has_memory_ = false;
  if (!last || options_.replicate == nullptr) return;
  options_.replicate->set_unit(options_.unit);
  replicating_ = options_.replicate->StartAllReduceSum(gradient_);
  if (options_.overlap) return;
  replicating_->Wait();
  replicating_.reset();
}

void FlatShard::SumPassesInTreeOrder() {
  if (trainable_) passes_.Init(gradient_, /*in_tree_order=*/true);
}

void FlatShard::ExposeGradients() {
  const torch::NoGradGuard no_grad;
  if (replicating_ != nullptr) replicating_->Wait();
  replicating_.reset();
  for (size_t i = 0; i < params_.size(); ++i) {
    at::Tensor& grad = params_[i].mutable_grad();
    grad = params_[i].requires_grad() ? gradient_pieces_[i] : at::Tensor();
  }
}

}  // namespace composer
