// A run's model on its mesh of ranks: made without memory for its values where that can be done, this rank's part of it
// (tensor parallelism), and this rank's pieces of that (FSDP).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "trainer/collectives/mesh.h"
#include "trainer/core/state.h"
#include "trainer/elastic/virtual_shards.h"
#include "trainer/init/construct_model.h"
#include "trainer/options/trainer_options.h"
#include "trainer/parallel/fsdp/fsdp.h"
#include "trainer/parallel/fsdp/memory_plan.h"
#include "trainer/parallel/tensor/part_values.h"
#include "trainer/parallel/tensor/tensor_sharding.h"

namespace composer {

// Threads: one.
class ParallelModel {
 public:
  // Makes the mesh of `world` and the model: options.model is this rank's part afterwards, whose parameters may have no
  // memory yet. A collective. options and world must outlive the result. kInvalidArgument: what does not divide.
  static absl::StatusOr<std::unique_ptr<ParallelModel>> Make(TrainerOptions& options, Communicator& world);

  // Onto options.device, with its values, in pieces. Before the optimizer is made, so that its state is that of the
  // pieces; what wraps the model's blocks must have done so. Sets state.sharding. A collective.
  void Shard(State& state);
  // Rank 0's weights and buffers go to all ranks, unless each made its pieces of the same ones. A collective.
  void ShareFirstWeights(const State& state);
  // Prints what the run takes, when fsdp's `verbose` is set, on rank 0 (memory_log.cc). Once the optimizer is made.
  void LogPlan(const State& state) const;

  Mesh& mesh() { return mesh_; }
  LeafPlace Place() const { return place_; }
  Fsdp* fsdp() { return fsdp_.get(); }  // null: not sharded

 private:
  ParallelModel(TrainerOptions& options, Communicator& world, const MeshShape& shape);
  // This rank's part in place of the model.
  void Split();
  // Its values, where they come from part_values_ and FSDP does not make them.
  void GivePartValues();

  TrainerOptions& options_;
  Mesh mesh_;
  LeafPlace place_;
  bool sharded_;  // by fsdp_
  bool logs_plan_;
  PlannedStep planned_;                              // with logs_plan_
  ConstructedModel constructed_;                     // until the model has its values, with make_model
  std::unique_ptr<PartValues> part_values_;          // so long; null: not tensor-parallel, or cut from the whole
  std::unique_ptr<TensorSharding> tensor_sharding_;  // null: not tensor-parallel
  std::unique_ptr<Fsdp> fsdp_;                       // null: not sharded
};

}  // namespace composer
