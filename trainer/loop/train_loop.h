// TrainLoop is the nested loop of epochs and batches with their events: it implements event.h's comment. Source:
// mosaicml composer/trainer/trainer.py, _train_loop().
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "trainer/collectives/mesh.h"
#include "trainer/core/communicator.h"
#include "trainer/core/engine.h"
#include "trainer/core/logger.h"
#include "trainer/core/state.h"
#include "trainer/core/supervision.h"
#include "trainer/data/prefetcher.h"
#include "trainer/loop/data_wait.h"
#include "trainer/loop/eval_loop.h"
#include "trainer/loop/generate_loop.h"
#include "trainer/loop/train_batch.h"
#include "trainer/resume/run_checkpoints.h"
#include "trainer/step/device_graph.h"

namespace composer {

// The training data of a run. Trainer::Fit may replace it while the loop does not run.
struct TrainData {
  std::shared_ptr<Loader> loader;
  std::unique_ptr<Prefetcher> batches;  // from loader
};

// RunParts are the parts of a run that the loop drives; all must outlive it.
struct RunParts {
  State& state;
  Engine& engine;
  Logger& logger;
  Communicator& communicator;
  TrainData& train_data;
  std::vector<GenerateCallback>& generate;
  RunCheckpoints& checkpoints;
  std::vector<RunCheckpoints*> all_checkpoints;  // including those of callbacks
  Supervision& supervision;
  Clock& clock;
  int64_t train_metrics_interval;
  bool eval_first = false;
  GradientSync* gradient_sync = nullptr;  // null: as in TrainBatch
  DdpOptions ddp;                         // for the reducer that TrainBatch then makes
  ElasticOptions elastic;
  GraphCapture* graphs = nullptr;  // cuda_graphs: the steps are captured
  bool wraps_activations = false;  // checkpointing or offload
  Mesh& mesh;
  // Returns an error if the model is no longer the one that was built. Asked at the beginning of a run and of epochs,
  // and at the end.
  std::function<absl::Status()> check_model;
  // data_ranks have other samples, tensor_ranks have the same; null if there are none.
  Communicator& data_ranks() const { return mesh.data(); }
  Communicator* tensor_ranks() const { return mesh.shape().tensor == 1 ? nullptr : &mesh.tensor(); }
};

class TrainLoop {
 public:
  explicit TrainLoop(const RunParts& parts);

  // Trains from state.timestamp until max_duration, a stop, or a drain. Returns OK when the run is complete, kCancelled
  // when a drain was requested and a checkpoint is committed from which the run can resume. Throws what LibTorch
  // throws. May be called again, with another timestamp or max_duration.
  absl::Status Run();

  // Returns the number of collectives per step: only those of the gradients and parameters.
  int64_t collectives_per_step() const { return train_batch_.collectives_per_step(); }

 private:
  bool Finished() const;
  // Returns whether nothing is left to train, though the end of the last epoch may still be due.
  bool OutOfBatches() const;
  absl::Status RunEpoch();  // until the loader ends, the run is finished, or a drain
  void FinishEpoch();
  // Returns whether the timestamp is at the end of the epoch; of a stream only LoadBatch knows.
  bool AtEndOfEpoch() const { return parts_.train_data.loader->SamplesAt(state_.timestamp.sample_in_epoch) == 0; }
  // Returns false when the epoch has no further batch. Throws when it has none at all.
  bool LoadBatch();
  bool AtIterationStart() const;
  // Ends the iteration when its length, in this unit, is reached.
  void MaybeFinishIteration(TimeUnit unit);
  // Makes one collective per epoch: a stop requested at EPOCH_END on any rank ends all ranks.
  void AgreeOnStop();
  void Step();
  // Runs the step, and repeats it with smaller microbatches as long as a rank runs out of memory.
  StepMessage RunStep(TrainBatch::Request request);
  StepMessage OwnMessage();
  void LogStep(bool measured);
  void Evaluate(Event event);
  void Generate(Event event);
  void Fire(Event event);
  void CheckpointAt(Event event);
  // Called at the end of each batch: handles saves that ended meanwhile. A failed save throws here, on all ranks.
  void FollowSaves();
  // Saves the checkpoint that was requested.
  void SaveIfAsked();

  RunParts parts_;
  State& state_;
  TrainBatch train_batch_;
  ScheduleContext schedule_;
  absl::Time step_started_;
  absl::Duration waited_;  // for the batch of this step
  DataWait data_wait_;
  bool epoch_ended_ = false;                        // the stream has no further sample
  int64_t loaded_samples_ = 0, loaded_tokens_ = 0;  // in this batch, before algorithms change it: what clocks count
  bool drain_ = false;                              // agreed on by all ranks
  bool stop_ = false;                               // agreed on by all ranks
  bool save_asked_ = false;                         // agreed on by all ranks: a checkpoint now
  bool save_failed_ = false;                        // agreed on by all ranks
  Logger::MetricId loss_id_, data_wait_id_;
  std::vector<Logger::MetricId> part_ids_;  // for the model's several losses
  std::vector<Logger::MetricId> metric_ids_;
};

}  // namespace composer
