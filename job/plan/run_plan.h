// A RunPlan says what a run will cost before it is started: memory of a rank by cause, operations, bytes sent, time.
// Pure: it follows from the shapes of the model and the options; no tensor is allocated.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "job/plan/hardware.h"
#include "job/plan/network.h"
#include "trainer/core/model.h"
#include "trainer/options/trainer_options.h"
#include "trainer/parallel/fsdp/shard_plan.h"

namespace composer {

// What does not depend on the number of ranks.
struct PlannedModel {
  int64_t parameters = 0, trainable = 0;
  double flops_per_sample = 0;               // forward and backward; 0: the model does not say
  int64_t tokens_per_sample = 0;             // 0: not a language model
  double optimizer_bytes_per_parameter = 0;  // of the trainable ones
  std::optional<int64_t> activation_bytes;   // of a rank, from a dry run; nullopt: see why_no_activations
  std::string why_no_activations;            // a clause
};

// Of one number of ranks.
struct PlannedRanks {
  int ranks = 1;
  PlannedMemory memory;
  int64_t sent_bytes = 0;      // by a rank in a step
  int64_t global_samples = 0;  // of a step
  int64_t microbatch = 0, passes = 1;
  bool sharded = false;
  StepTraffic traffic;  // without what tensor-parallel ranks exchange of activations
};

// Returns the plan for a number of ranks. `model` may be without memory for its values. With tensor parallelism
// parameters count as if the tensor-parallel ranks shared all of them. Returns PlanMesh's errors.
absl::StatusOr<PlannedRanks> PlanRanks(Model& model, const PlannedModel& planned, const TrainerOptions& options,
                                       int ranks);

struct PlannedTime {
  double peak_flops = 0;                   // of one GPU in the run's precision
  const MeasuredTraining* like = nullptr;  // whose share of the peak is expected; null: none is known
  const Network* network = nullptr;        // null: none is known for this GPU
  NetworkTime traffic;                     // over that network; zeros without one
  double step_seconds = 0;                 // 0: unknown
  double mfu = 0;                          // of all ranks
};
// The longer of computation, at that training's share of the peak, and traffic; both, one after the other, where
// traffic does not overlap; and the traffic that nothing hides.
PlannedTime TimeOfStep(const PlannedModel& model, const PlannedRanks& ranks, const GpuKind& gpu, Precision precision);

// Returns the report that `composer plan` prints. `others`: further numbers of ranks for the table.
std::string RunPlanText(const PlannedModel& model, const PlannedRanks& ranks, const std::vector<PlannedRanks>& others,
                        const std::optional<GpuKind>& gpu, const TrainerOptions& options);

}  // namespace composer
