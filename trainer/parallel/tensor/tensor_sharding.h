// TensorSharding is the ModelSharding of a tensor-parallel model: each rank holds its part of the split parameters and
// all of the others, with FSDP pieces of both. It maps what FSDP says of a rank's tensors to the whole model's.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/nn/module.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "trainer/collectives/mesh.h"
#include "trainer/core/model_sharding.h"
#include "trainer/parallel/tensor/tensor_parallel.h"

namespace composer {

class TensorSharding final : public ModelSharding {
 public:
  // Records the splits of the model's parameters; must come before FSDP, if any, shards it. All must outlive this
  // object. The mesh's tensor ranks are those that the model was made for.
  TensorSharding(const torch::nn::Module& model, Mesh& mesh);
  // `fsdp` is of this model; null if there is none.
  void SetFsdp(ModelSharding* fsdp);

  void BeginForward() override;
  void EndForward() override;
  void AbandonForward() override;
  void SkipForward() override;
  void BeginWhole() override;
  bool keeps_whole() const override { return fsdp_ == nullptr || fsdp_->keeps_whole(); }
  const Piece* Find(const at::Tensor& param) const override;
  void SumOverShards(const at::Tensor& tensor) override;
  bool Counts(const at::Tensor& param) const override;
  bool splits_tensors() const override { return true; }
  int num_shards() const override;
  int shard_index() const override;
  at::Device device() const override { return mesh_.world().device(); }
  std::vector<std::pair<std::string, at::Tensor>> WholeParameters() override;

  bool IsSplit(const at::Tensor& param) const { return splits_.contains(param.unsafeGetTensorImpl()); }

 private:
  // `local` is this rank's part, on the CPU.
  at::Tensor GatherWhole(const at::Tensor& local, const TensorSplit& split);
  const TensorSplit* SplitOf(const at::Tensor& param) const;

  const torch::nn::Module& model_;
  Mesh& mesh_;
  ModelSharding* fsdp_ = nullptr;
  // The keys of both maps are parameters' TensorImpls.
  absl::flat_hash_map<const void*, std::unique_ptr<TensorSplit>> splits_;
  absl::flat_hash_map<const void*, Piece> pieces_;  // has no parameter that is whole on every rank
};

}  // namespace composer
