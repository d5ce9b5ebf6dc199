// TrainBatch makes one optimizer step: microbatches through forward, loss and backward; gradients summed over ranks;
// the update.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "trainer/core/communicator.h"
#include "trainer/core/engine.h"
#include "trainer/core/gradient_sync.h"
#include "trainer/core/state.h"
#include "trainer/elastic/elastic_step.h"
#include "trainer/options/ddp_options.h"
#include "trainer/step/finite_check.h"
#include "trainer/step/loss_sums.h"
#include "trainer/step/step_message.h"

namespace composer {

// The loss of the global batch is the mean over its samples: each microbatch's mean loss is weighted by (its samples) /
// (samples of the global batch), and gradients are summed over ranks. Neither the microbatch size nor an uneven split
// among ranks therefore changes the result beyond rounding. A rank without samples takes part with zeros. With
// accumulate_train_batch_on_tokens the same holds for the tokens that generate loss; their number over all ranks is
// known only after the sum, so the gradients are divided by it then.
//
// In elastic mode (elastic_step.h) the microbatches are the leaves of its tree, and sums over ranks go through the
// reducer even when there is one rank.
//
// When a rank runs out of memory (IsOutOfMemory) with auto_microbatch, it completes the step's collectives, and its
// flag makes all ranks discard the step: weights, optimizer, buffers and metrics are as before. Without auto_microbatch
// it throws StatusError(OutOfMemoryStatus).
//
// If a loss or gradients are NaN or infinite (State::nan): each rank checks its gradients before they are summed, and
// the verdict travels with the sums, so that all ranks stop, or skip the update, at the same step.
class TrainBatch {
 public:
  // All must outlive this object; the model's parameters must be final. `sync` sums gradients over ranks, with a tail
  // of TailLength, and in elastic mode with passes in the order of the tree; null means a GradientReducer with `ddp` if
  // there are several ranks. `communicator` has the ranks with other samples (State::data_rank), `tensor` those with
  // the same; null if there are none.
  TrainBatch(State& state, Engine& engine, Communicator& communicator, GradientSync* sync = nullptr,
             const DdpOptions& ddp = {}, const ElasticOptions& elastic = {}, Communicator* tensor = nullptr);
  // Returns the number of floats that the ranks send each other with a step's gradients.
  static int TailLength(const State& state);

  struct Request {
    int64_t global_samples;  // in this global batch
    bool measure;            // update the train metrics
    StepMessage message;     // votes and seconds of this rank; Run fills in loss, samples and tokens
  };
  // Runs the step on state.batch (the whole rank batch). Fills state.step and returns the ranks' summed message. If its
  // out_of_memory is > 0, the step was discarded. Throws LibTorch's exceptions, and StatusError from callbacks.
  StepMessage Run(const Request& request);

  // Returns the names of the model's several losses, known after the first step; the last step's values are in its
  // StepMessage.
  const std::vector<std::string>& loss_part_names() const { return losses_.part_names(); }
  int64_t collectives_per_step() const { return sync_ == nullptr ? 0 : sync_->num_collectives_per_step(); }

 private:
  // Returns the share of each microbatch in the step and fills in the message's loss_tokens. Throws c10::ValueError in
  // elastic mode if the targets do not determine them.
  std::vector<double> Weights(const Request& request, const std::vector<Microbatch>& plan, StepMessage& message) const;
  std::vector<Microbatch> PlanOf() const;
  // Returns the number of the rank that has the most.
  int64_t NumMicrobatches(const Request& request) const;
  void RunMicrobatches(const Request& request, StepMessage& message);
  // Makes a microbatch's rows of the whole rank batch the state's batch.
  void TakeRows(const Batch& whole, const Microbatch& microbatch);
  // Calls fn; an error in it names module, batch and samples (core/error_place.h).
  template <typename Fn>
  void WithPlace(absl::string_view stage, const Fn& fn);
  void RunForward(bool measure);
  void ComputeLoss();
  void RunBackward(double weight);
  // Must be called in a catch block. Rethrows what is not an out-of-memory, or cannot be recovered from.
  void OnOutOfMemory(const StepMessage& message);
  StepMessage ReduceOverRanks(const StepMessage& message);
  void RestoreBuffers();
  void Discard();
  // Returns the factor that summed gradients and losses still need when the number of loss tokens was not known before:
  // TokenScale / (number of loss tokens); otherwise 1.
  double FactorAfterSum(const Request& request, const StepMessage& agreed) const;
  // Returns, after AFTER_TRAIN_BATCH, whether the optimizer may make its step. Throws StatusError kInvalidArgument,
  // which is not retried, when the run is to stop.
  bool MayUpdate(bool gradients_finite);
  absl::Status NotFinite(const std::string& what) const;
  void CheckOwnGradients();
  // Scales gradients. Returns false if they are not finite, on this rank or another, and the update must be skipped.
  bool PrepareGradients(double factor);
  // The tail is a StepMessage, followed by the sums of the train metrics.
  void FillTail(StepMessage message);
  StepMessage ReadTail();
  double loss_scale() const { return state_.scaler ? state_.scaler->scale() : 1; }

  State& state_;
  Engine& engine_;
  std::vector<at::Tensor> params_;
  std::unique_ptr<ElasticStep> elastic_;  // null: not elastic
  std::unique_ptr<GradientSync> own_sync_, tensor_sync_;
  GradientSync* sync_;  // null: one rank
  int world_size_;
  at::Tensor weight_;  // scalar; backward starts from this gradient
  LossSums losses_;
  // These are the model's buffers, now and before the step; used with auto_microbatch or on_nan: skip, which undo a
  // step.
  std::vector<at::Tensor> buffers_, saved_buffers_;
  FiniteCheck check_;  // for the gradients of one rank alone
};

}  // namespace composer
