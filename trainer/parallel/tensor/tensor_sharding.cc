// SPDX-License-Identifier: Apache-2.0
#include "trainer/parallel/tensor/tensor_sharding.h"

#include <torch/nn/module.h>
#include <torch/types.h>

#include "checkpoint/format/reshard.h"

namespace composer {

TensorSharding::TensorSharding(const torch::nn::Module& model, Mesh& mesh) : model_(model), mesh_(mesh) {
  for (const SplitParameter& each : SplitParametersOf(model)) {
    TORCH_CHECK_VALUE(each.split.ranks == mesh.tensor().world_size() && each.split.rank == mesh.tensor().rank(),
                      "tensor parallelism: parameter ", each.name, " is split for rank ", each.split.rank, " of ",
                      each.split.ranks, ", but this is rank ", mesh.tensor().rank(), " of ",
                      mesh.tensor().world_size());
    splits_[each.tensor.unsafeGetTensorImpl()] = std::make_unique<TensorSplit>(each.split);
  }
  SetFsdp(nullptr);
}

void TensorSharding::SetFsdp(ModelSharding* fsdp) {
  fsdp_ = fsdp;
  pieces_.clear();
  for (const at::Tensor& param : model_.parameters()) {
    const TensorSplit* split = SplitOf(param);
    Piece piece;
    if (fsdp != nullptr) {
      const Piece* inner = fsdp->Find(param);
      TORCH_CHECK(inner != nullptr, "fsdp does not know a parameter of its model");
      piece = *inner;
    } else if (split != nullptr) {
      piece = {param.sizes().vec(), 0, param.numel(), mesh_.data().rank() == 0};
    } else {
      continue;
    }
    piece.split = split;
    if (split == nullptr) piece.writes = piece.writes && mesh_.tensor().rank() == 0;
    pieces_[param.unsafeGetTensorImpl()] = std::move(piece);
  }
}

const TensorSplit* TensorSharding::SplitOf(const at::Tensor& param) const {
  const auto it = splits_.find(param.unsafeGetTensorImpl());
  return it == splits_.end() ? nullptr : it->second.get();
}

void TensorSharding::BeginForward() {
  if (fsdp_ != nullptr) fsdp_->BeginForward();
}

void TensorSharding::EndForward() {
  if (fsdp_ != nullptr) fsdp_->EndForward();
}

void TensorSharding::AbandonForward() {
  if (fsdp_ != nullptr) fsdp_->AbandonForward();
}

// The ranks of a tensor-parallel group either all have samples or none.
void TensorSharding::SkipForward() {
  if (fsdp_ != nullptr) fsdp_->SkipForward();
}

void TensorSharding::BeginWhole() {
  if (fsdp_ != nullptr) fsdp_->BeginWhole();
}

const ModelSharding::Piece* TensorSharding::Find(const at::Tensor& param) const {
  const auto it = pieces_.find(param.unsafeGetTensorImpl());
  return it == pieces_.end() ? nullptr : &it->second;
}

void TensorSharding::SumOverShards(const at::Tensor& tensor) {
  if (fsdp_ != nullptr) fsdp_->SumOverShards(tensor);
  mesh_.tensor().AllReduceSum(tensor);
}

bool TensorSharding::Counts(const at::Tensor& param) const { return IsSplit(param) || mesh_.tensor().rank() == 0; }

int TensorSharding::num_shards() const {
  return (fsdp_ == nullptr ? 1 : fsdp_->num_shards()) * mesh_.tensor().world_size();
}

int TensorSharding::shard_index() const {
  return (fsdp_ == nullptr ? 0 : fsdp_->shard_index()) * mesh_.tensor().world_size() + mesh_.tensor().rank();
}

at::Tensor TensorSharding::GatherWhole(const at::Tensor& local, const TensorSplit& split) {
  TensorSplit of_rank = split;
  of_rank.rank = 0;
  const int64_t most = Volume(of_rank.LocalShape());  // all ranks send this many
  const at::Tensor own = at::zeros({most}, local.options().device(device()));
  own.narrow(0, 0, local.numel()).view(local.sizes()).copy_(local);
  const at::Tensor gathered = at::empty({split.ranks, most}, own.options());
  mesh_.tensor().StartAllGather(gathered, own)->Wait();
  const at::Tensor whole = at::empty(split.shape, local.options());
  for (; of_rank.rank < split.ranks; ++of_rank.rank) {
    const std::vector<int64_t> shape = of_rank.LocalShape();
    const at::Tensor theirs = gathered[of_rank.rank].narrow(0, 0, Volume(shape)).view(shape);
    for (const TensorSplit::Part& part : of_rank.Parts())
      whole.narrow(split.dim, part.whole, part.size).copy_(theirs.narrow(split.dim, part.local, part.size));
  }
  return whole;
}

std::vector<std::pair<std::string, at::Tensor>> TensorSharding::WholeParameters() {
  const torch::NoGradGuard no_grad;
  const auto params = model_.named_parameters();
  std::vector<std::pair<std::string, at::Tensor>> whole;
  if (fsdp_ != nullptr) {
    whole = fsdp_->WholeParameters();
  } else {
    for (const auto& item : params)
      whole.emplace_back(item.key(), item.value().detach().to(at::kCPU, item.value().scalar_type(), false, true));
  }
  for (auto& [name, tensor] : whole) {
    if (const TensorSplit* split = SplitOf(params[name])) tensor = GatherWhole(tensor, *split);
  }
  return whole;
}

}  // namespace composer
