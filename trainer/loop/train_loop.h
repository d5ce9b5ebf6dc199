// The nested loop of epochs and batches with their events: event.h's comment made code.
// Source: mosaicml composer/trainer/trainer.py, _train_loop().
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "base/clock.h"
#include "trainer/collectives/mesh.h"
#include "trainer/core/communicator.h"
#include "trainer/core/engine.h"
#include "trainer/core/logger.h"
#include "trainer/core/state.h"
#include "trainer/core/supervision.h"
#include "trainer/data/prefetcher.h"
#include "trainer/loop/eval_loop.h"
#include "trainer/loop/generate_loop.h"
#include "trainer/loop/train_batch.h"
#include "trainer/resume/run_checkpoints.h"

namespace composer {

// The parts of a run that the loop moves; all outlive it.
struct RunParts {
  State& state;
  Engine& engine;
  Logger& logger;
  Communicator& communicator;
  const DataLoader& train_loader;
  Prefetcher& train_batches;  // of train_loader
  std::vector<Evaluator>& evaluators;
  std::vector<GenerateCallback>& generate;
  RunCheckpoints& checkpoints;
  std::vector<RunCheckpoints*> all_checkpoints;  // and those of callbacks
  Supervision& supervision;
  Clock& clock;
  int64_t train_metrics_interval;
  GradientSync* gradient_sync = nullptr;  // null: as TrainBatch's
  DdpOptions ddp;                         // of that one
  ElasticOptions elastic;
  Mesh& mesh;
  // The ranks that have other samples; those that have the same, null when there are none.
  Communicator& data_ranks() const { return mesh.data(); }
  Communicator* tensor_ranks() const { return mesh.shape().tensor == 1 ? nullptr : &mesh.tensor(); }
};

class TrainLoop {
 public:
  explicit TrainLoop(const RunParts& parts);

  // Trains from state.timestamp until max_duration, a stop, or a drain. OK: the run is complete. kCancelled: a drain
  // was asked for, a checkpoint is committed, and the run can go on from it. Throws what LibTorch throws. May be called
  // again, with another timestamp or max_duration.
  absl::Status Run();

  // Collectives that a step makes: those of the gradients and parameters, nothing else.
  int64_t collectives_per_step() const { return train_batch_.collectives_per_step(); }

 private:
  bool Finished() const;
  // Nothing is left to train, though the end of the last epoch may still be due.
  bool OutOfBatches() const;
  absl::Status RunEpoch();  // until the loader ends, the run is finished, or a drain
  void FinishEpoch();
  void LoadBatch();
  bool AtIterationStart() const;
  // Ends the iteration when its length, in this unit, is reached.
  void MaybeFinishIteration(TimeUnit unit);
  // One collective an epoch: a stop asked for at EPOCH_END on any rank ends all.
  void AgreeOnStop();
  void Step();
  // The step, again with smaller microbatches for as long as a rank runs out of memory.
  StepMessage RunStep(TrainBatch::Request request);
  StepMessage OwnMessage();
  void LogStep(const StepMessage& agreed, bool measured);
  void Evaluate(Event event);
  void Generate(Event event);
  void Fire(Event event);
  void CheckpointAt(Event event);
  // At the end of each batch: hears of saves that ended behind it. One that failed throws here, on all ranks.
  void FollowSaves();
  // The checkpoint that somebody asked for.
  void SaveIfAsked();

  RunParts parts_;
  State& state_;
  TrainBatch train_batch_;
  ScheduleContext schedule_;
  absl::Time step_started_;
  bool drain_ = false;        // agreed by all ranks
  bool stop_ = false;         // agreed by all ranks
  bool save_asked_ = false;   // the same: a checkpoint now
  bool save_failed_ = false;  // the same
  Logger::MetricId loss_id_;
  std::vector<Logger::MetricId> part_ids_;  // of the model's several losses
  std::vector<Logger::MetricId> metric_ids_;
};

}  // namespace composer
