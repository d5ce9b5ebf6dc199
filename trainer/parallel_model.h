// ParallelModel is a run's model on its mesh of ranks: made without memory for its values where possible, this rank's
// part of it (tensor parallelism), and this rank's pieces of that (FSDP).
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
  // Makes the mesh of `world` and the model: options.model becomes this rank's part, whose parameters may have no
  // memory yet. A collective. options and world must outlive the result. Returns kInvalidArgument naming what does not
  // divide.
  static absl::StatusOr<std::unique_ptr<ParallelModel>> Make(TrainerOptions& options, Communicator& world);

  // Moves the model to options.device, with its values, in pieces. Must be called before the optimizer is made, so that
  // its state is that of the pieces, and after other wrappers of the model's blocks. Sets state.sharding. A collective.
  void Shard(State& state);
  // Broadcasts rank 0's weights and buffers to all ranks, unless each made its pieces of the same ones. A collective.
  void ShareFirstWeights(const State& state);
  // Prints on rank 0 what the run takes, if fsdp's `verbose` is set (memory_log.cc). Requires the optimizer.
  void LogPlan(const State& state) const;

  Mesh& mesh() { return mesh_; }
  LeafPlace Place() const { return place_; }
  Fsdp* fsdp() { return fsdp_.get(); }  // null: not sharded

 private:
  ParallelModel(TrainerOptions& options, Communicator& world, const MeshShape& shape);
  // Replaces the model with this rank's part.
  void Split();
  // Makes the part: by the layer plan out of `whole` itself, or of a new model where `whole` must stay.
  std::shared_ptr<Model> PartOf(const std::shared_ptr<Model>& whole, bool whole_stays);
  // Gives the part its values if they come from part_values_ and FSDP does not make them.
  void GivePartValues();

  TrainerOptions& options_;
  Mesh mesh_;
  LeafPlace place_;
  bool sharded_;  // by fsdp_
  bool logs_plan_;
  PlannedStep planned_;                              // set with logs_plan_
  ConstructedModel constructed_;                     // with make_model, until the model has its values
  std::unique_ptr<PartValues> part_values_;          // just as long; null: not tensor-parallel, or cut from the whole
  std::unique_ptr<TensorSharding> tensor_sharding_;  // null: not tensor-parallel
  std::unique_ptr<Fsdp> fsdp_;                       // null: not sharded
};

}  // namespace composer
