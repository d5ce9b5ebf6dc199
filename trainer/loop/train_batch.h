// TrainBatch makes one optimizer step: it accumulates gradients over microbatches and ranks, and updates the parameters
// with them. An optimizer that evaluates the loss several times (Optimizer::needs_closure) accumulates as often as it
// likes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "trainer/core/communicator.h"
#include "trainer/core/engine.h"
#include "trainer/core/gradient_sync.h"
#include "trainer/core/state.h"
#include "trainer/elastic/step_plan.h"
#include "trainer/loop/graph_choice.h"
#include "trainer/loop/step_graphs.h"
#include "trainer/optim/device_rates.h"
#include "trainer/options/ddp_options.h"
#include "trainer/parallel/ddp/local_sync.h"
#include "trainer/step/loss_sums.h"
#include "trainer/step/step_message.h"

namespace composer {

// The loss of the global batch is the mean over its samples: each microbatch's mean loss is weighted by (its samples) /
// (samples of the global batch), and gradients are summed over ranks. Neither the microbatch size nor an uneven split
// among ranks therefore changes the result beyond rounding. A rank without samples takes part with zeros. Samples are
// those of the batches as algorithms left them; where the ranks know their number only after the sum, gradients are
// divided by it then. With accumulate_train_batch_on_tokens the same holds for the tokens that generate loss.
//
// In elastic mode (elastic_step.h) the microbatches are the leaves of its tree, and sums over ranks go through the
// reducer even when there is one rank.
//
// When a rank runs out of memory (IsOutOfMemory) with auto_microbatch, it completes the step's collectives, and its
// flag makes all ranks discard the step: weights, optimizer, buffers and metrics are as before. Without auto_microbatch
// it throws StatusError(OutOfMemoryStatus).
//
// If a loss or gradients are NaN or infinite (State::settings.nan): each rank checks its gradients before they are
// summed, and the verdict travels with the sums, so that all ranks stop, or skip the update, at the same step.
//
// The loss that is trained on, and logged, is state.loss after BEFORE_BACKWARD. Train metrics see the batch as it was
// before BEFORE_FORWARD; algorithms replace its tensors and do not write into them. Autocast covers forward and loss.
class TrainBatch final : private LossClosure {
 public:
  // All must outlive this object; the model's parameters must be final. `sync` sums gradients over ranks, with a tail
  // of TailLength, and in elastic mode with passes in the order of the tree; null means a GradientReducer with `ddp` if
  // there are several ranks. `communicator` has the ranks with other samples (State::identity.data_rank), `tensor`
  // those with the same; null if there are none. Throws c10::ValueError when an algorithm's demands cannot be met.
  TrainBatch(State& state, Engine& engine, Communicator& communicator, GradientSync* sync = nullptr,
             const DdpOptions& ddp = {}, const ElasticOptions& elastic = {}, Communicator* tensor = nullptr);
  // Returns the number of floats that the ranks send each other with a step's gradients.
  static int TailLength(const State& state);

  struct Request {
    int64_t global_samples;  // in this global batch, as the loader gave it
    bool measure;            // update the train metrics
    StepMessage message;     // this rank's votes and seconds, and samples and tokens of the loader; Run adds the rest
  };
  // Runs the step on state.batch (the whole rank batch). Fills state.step and returns the ranks' summed message. If its
  // out_of_memory is > 0, the step was discarded. Throws LibTorch's exceptions, and StatusError from callbacks.
  StepMessage Run(const Request& request);

  // From here on steps are captured as graphs where they may be (graph_choice.h); where not, rank 0 says why. To be
  // called at the beginning of a run, when algorithms and callbacks are known. `capture` must outlive this object.
  void BeginGraphs(GraphCapture& capture, bool wraps_activations);

  // Returns the names of the model's several losses, known after the first step, and the last step's values.
  const std::vector<std::string>& loss_part_names() const { return losses_.part_names(); }
  const std::vector<double>& loss_parts() const { return agreed_parts_; }
  // Returns whether the last step was a graph's.
  bool replayed() const { return replayed_; }
  int64_t collectives_per_step() const { return sync_->num_collectives_per_step(); }

 private:
  // Throws c10::ValueError naming a parameter that was thawed although it was frozen when this was made.
  void CheckFrozen() const;
  // Thrown through an optimizer when a rank ran out of memory.
  struct Discarded {};

  // LossClosure:
  std::optional<double> Evaluate(Gradients gradients) override;
  bool keeps_own() const override { return sync_->keeps_local() && !plan_->sums_at_the_end(); }
  int64_t batch() const override { return state_.timestamp.batch; }

  // Brings gradients about; they are sent while the last of them are still computed, if `sends`. Returns what this rank
  // has to say about it.
  StepMessage Accumulate(bool sends);
  // Waits for the sums over ranks. Returns the loss if there may be an update with them.
  std::optional<double> SumAndCheck(const StepMessage& message);

  // Accumulate (train_batch_passes.cc).
  void ReadAlgorithms(DdpOptions& ddp, bool alone);
  // Takes the number of samples from the batch's tensors, which algorithms may have changed.
  void CountRows();
  // Returns the number of passes of the rank that has the most.
  int64_t AgreeOnPasses(int64_t planned);
  // Returns the share of each microbatch in the step and fills in the message's loss_tokens. Throws c10::ValueError in
  // elastic mode if the targets do not determine them.
  std::vector<double> Weights(const std::vector<Microbatch>& plan, StepMessage& message) const;
  void RunPasses(bool sends, StepMessage& message);
  // Calls fn; an error in it names module, batch and samples (core/error_place.h).
  template <typename Fn>
  void WithPlace(absl::string_view stage, const Fn& fn);
  void RunForward();
  void ComputeLoss();
  void RunBackward(double weight);
  // Must be called in a catch block. Rethrows what is not an out-of-memory, or cannot be recovered from.
  void OnOutOfMemory();

  // The step that may be a graph (train_batch_graph.cc).
  GraphFacts FactsForGraphs(bool wraps_activations) const;
  StepMessage RunQueued();
  // Queues forward, backward and update, with the verdict on the device.
  QueuedStep Queue(const Batch& batch);
  // Returns what a graph would leave out, or "".
  std::string SumsOnHost() const;
  // These queue the end of the sums and what brings them to the host. They return what StepUnless needs.
  at::Tensor QueueAlone(QueuedStep& step);
  at::Tensor QueueSums(const StepMessage& message, QueuedStep& step);
  // Gives outputs, losses and gradients to those that look at them after the step.
  void ShowQueued(const QueuedStep& step);
  StepMessage ReadQueued(const QueuedStep& step, int64_t samples);

  // Sum and update (train_batch_update.cc).
  StepMessage SumOverRanks(const StepMessage& message);
  // What SumOverRanks does on a single rank. The host waits for the device here and nowhere else in a step: losses, the
  // metrics' sums and whether gradients are finite are read at once.
  StepMessage ReadAlone(const StepMessage& message);
  // Has the losses and the metrics' sums read.
  void ReadSums(DeviceRead& read);
  // Returns the gradients that the step's passes have left.
  std::vector<at::Tensor> PresentGradients() const;
  void SumMoreParts(const StepMessage& agreed);
  // Returns the factor that summed gradients and losses still need when the number of samples or loss tokens was not
  // known before.
  double FactorAfterSum(const StepMessage& agreed) const;
  // Takes the losses of the step's first evaluation that was summed.
  void Settle(const StepMessage& agreed, double factor);
  // Scales gradients. Returns false if they are not finite, on this rank or another, and the update must be skipped.
  bool PrepareGradients(double factor);
  // Returns whether a step whose loss or gradients are not finite may be made all the same. Throws StatusError
  // kInvalidArgument, which is not retried, when the run is to stop.
  bool MayUpdateWithNan(double loss);
  absl::Status NotFinite(const std::string& what) const;
  void SaveBuffers();
  void RestoreBuffers();
  void Discard();
  // The tail is a StepMessage, followed by the sums of the train metrics. What of them is on a GPU goes into the tail
  // there, so that the step waits for the GPU only once, when the ranks' sums are read.
  void FillTail(StepMessage message);
  // Returns false, and changes nothing, if some losses or sums are on the host, or are more than the tail has room for.
  bool FillTailOnDevice(bool counts);
  StepMessage ReadTail();
  // Returns the losses that an evaluation reports when it is summed: its own, or those of the step's first one, if that
  // was not summed.
  LossSums& reported_losses() { return agreed_ ? repeated_losses_ : losses_; }
  double loss_scale() const { return state_.settings.scaler ? state_.settings.scaler->scale() : 1; }

  State& state_;
  Engine& engine_;
  Communicator& communicator_;
  NamedTensors never_trained_;  // frozen when this was made
  std::vector<at::Tensor> params_;
  std::unique_ptr<StepPlan> plan_;
  std::unique_ptr<GradientSync> own_sync_, tensor_sync_;
  LocalSync* alone_ = nullptr;  // sync_, when it is_alone()
  GradientSync* sync_;
  at::Tensor weight_;      // scalar; backward starts from this gradient
  at::Tensor wire_rates_;  // WireNumber::Rates, on a GPU
  bool creates_graph_ = false, agrees_on_passes_ = false, edits_batches_ = false;  // some algorithm does
  // These are the model's buffers, now and before the step; used with auto_microbatch or on_nan: skip, which undo a
  // step.
  std::vector<at::Tensor> buffers_, saved_buffers_;
  bool knows_buffers_ = false;

  std::unique_ptr<StepGraphs> graphs_;    // with cuda_graphs
  std::vector<uint64_t> graph_settings_;  // of the last queued step
  DeviceRates* rates_ = nullptr;          // of the optimizer, once it reads its rates on the device
  bool queues_ = false;                   // inside Queue
  bool replayed_ = false;
  bool queued_finite_ = true;  // the gradients of the step that was read last

  // The step in progress.
  Request request_{};
  LossSums losses_, repeated_losses_;  // of its first evaluation, of later ones
  int evaluations_ = 0;                // that have begun
  bool out_of_memory_ = false;         // in an evaluation whose gradients stay here
  bool finite_ = true;                 // loss and gradients, so far
  bool overflowed_ = false;            // gradients that the scaler has scaled, so far
  std::optional<bool> fits_;           // whether gradients that ReadAlone has unscaled are finite
  std::optional<StepMessage> agreed_;  // of the first evaluation that was summed
  std::vector<double> agreed_parts_;   // likewise
};

}  // namespace composer
