// One optimizer step: microbatches through forward, loss and backward; gradients summed over ranks; the update.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "trainer/core/engine.h"
#include "trainer/core/state.h"
#include "trainer/parallel/communicator.h"
#include "trainer/parallel/gradient_reducer.h"
#include "trainer/parallel/step_message.h"

namespace composer {

// The loss of the global batch is the mean over its samples: each microbatch's mean loss is weighted by
// (its samples) / (samples of the global batch), and gradients are summed over ranks. So neither the microbatch size
// nor an uneven split among ranks changes the result beyond rounding. A rank without samples takes part with zeros.
class TrainBatch {
 public:
  // All must outlive this object; the model's parameters must be final.
  TrainBatch(State& state, Engine& engine, Communicator& communicator);

  struct Request {
    int64_t global_samples;  // of this global batch
    bool measure;            // update the train metrics
    StepMessage message;     // votes and seconds of this rank; loss, samples and tokens are filled in here
  };
  // Runs the step on state.batch (the whole rank batch). Fills state.step; returns what the ranks told each other.
  // Throws LibTorch's exceptions; StatusError from callbacks.
  StepMessage Run(const Request& request);

  int64_t num_buckets() const { return reducer_ == nullptr ? 0 : reducer_->num_buckets(); }

 private:
  void RunMicrobatches(const Request& request, const StepMessage& message);
  void RunForward(bool measure);
  void RunBackward(double weight);
  // The tail is a StepMessage, then the sums of the train metrics.
  void FillTail(StepMessage message);
  StepMessage ReadTail();

  State& state_;
  Engine& engine_;
  std::vector<at::Tensor> params_;
  std::unique_ptr<GradientReducer> reducer_;  // null: one rank
  at::Tensor weight_;                         // scalar; the gradient that backward starts from
  double weighted_loss_ = 0;
};

}  // namespace composer
