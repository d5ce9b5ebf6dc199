// One optimizer step: microbatches through forward, loss and backward; gradients summed over ranks; the update.
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

// The loss of the global batch is the mean over its samples: each microbatch's mean loss is weighted by
// (its samples) / (samples of the global batch), and gradients are summed over ranks. So neither the microbatch size
// nor an uneven split among ranks changes the result beyond rounding. A rank without samples takes part with zeros.
// With accumulate_train_batch_on_tokens the same holds of the tokens that generate loss; their number over all ranks is
// known only after the sum, so the gradients are divided by it then.
//
// When elastic (elastic_step.h) the microbatches are the leaves of its tree, and what is summed over ranks goes through
// the reducer even when there is one rank.
//
// Out of memory (IsOutOfMemory) with auto_microbatch: the rank completes the
// step's collectives and its flag makes all ranks discard the step: weights, optimizer, buffers and metrics are as
// before. Without: StatusError(OutOfMemoryStatus).
//
// A loss or gradients that are NaN or infinite (State::nan): each rank looks at its gradients before they are summed, and what
// it finds travels with the sums, so that all ranks stop, or skip the update, at the same step.
class TrainBatch {
 public:
  // All must outlive this object; the model's parameters must be final. sync: how gradients are summed over ranks, with
  // a tail of TailLength, and passes in the order of the tree when elastic; null: a GradientReducer with ddp where there
  // are several ranks. communicator: of the ranks with other samples (State::data_rank); tensor: of those with the same,
  // null when there are none.
  TrainBatch(State& state, Engine& engine, Communicator& communicator, GradientSync* sync = nullptr,
             const DdpOptions& ddp = {}, const ElasticOptions& elastic = {}, Communicator* tensor = nullptr);
  // Floats that the ranks tell each other with a step's gradients.
  static int TailLength(const State& state);

  struct Request {
    int64_t global_samples;  // of this global batch
    bool measure;            // update the train metrics
    StepMessage message;     // votes and seconds of this rank; loss, samples and tokens are filled in here
  };
  // Runs the step on state.batch (the whole rank batch). Fills state.step; returns what the ranks told each other.
  // out_of_memory > 0 in it: the step was discarded. Throws LibTorch's exceptions; StatusError from callbacks.
  StepMessage Run(const Request& request);

  // Names of the model's several losses, known after the first step; values of the last step in its StepMessage.
  const std::vector<std::string>& loss_part_names() const { return losses_.part_names(); }
  int64_t collectives_per_step() const { return sync_ == nullptr ? 0 : sync_->num_collectives_per_step(); }

 private:
  // The share of each microbatch in the step; fills in the message's loss_tokens. Throws c10::ValueError when elastic and
  // the targets don't tell them.
  std::vector<double> Weights(const Request& request, const std::vector<Microbatch>& plan, StepMessage& message) const;
  std::vector<Microbatch> PlanOf() const;
  // Of the rank that has the most.
  int64_t NumMicrobatches(const Request& request) const;
  void RunMicrobatches(const Request& request, StepMessage& message);
  // The rows of a microbatch of the whole rank batch, as what the step works on.
  void TakeRows(const Batch& whole, const Microbatch& microbatch);
  // fn; an error in it names module, batch and samples (core/error_place.h).
  template <typename Fn>
  void WithPlace(absl::string_view stage, const Fn& fn);
  void RunForward(bool measure);
  void ComputeLoss();
  void RunBackward(double weight);
  // Called in a catch block: rethrows what is no out-of-memory, or can't be made good.
  void OnOutOfMemory(const StepMessage& message);
  StepMessage ReduceOverRanks(const StepMessage& message);
  void Discard();
  // What the summed gradients and losses lack: (number of loss tokens) when it was not known before.
  double FactorAfterSum(const Request& request, const StepMessage& agreed) const;
  // After AFTER_TRAIN_BATCH: may the optimizer make its step? Throws StatusError kInvalidArgument, which is not tried again,
  // when the run is to stop.
  bool MayUpdate(bool gradients_finite);
  absl::Status NotFinite(const std::string& what) const;
  void CheckOwnGradients();
  // Scales gradients; false: they are not finite, on this rank or another, and the update must be skipped.
  bool PrepareGradients(double factor);
  // The tail is a StepMessage, then the sums of the train metrics.
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
  at::Tensor weight_;  // scalar; the gradient that backward starts from
  LossSums losses_;
  // The model's, and as they were before the step; with auto_microbatch or on_nan: skip, which take a step back.
  std::vector<at::Tensor> buffers_, saved_buffers_;
  FiniteCheck check_;  // of the gradients of one rank alone
};

}  // namespace composer
