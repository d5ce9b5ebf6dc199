// Callbacks watch a run (and may stop it); algorithms change it. The Engine calls both.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "trainer/core/event.h"
#include "trainer/core/optimizer.h"
#include "trainer/layers/layer_policy.h"

namespace composer {

class Logger;
class Model;
enum class Precision;  // state.h
struct State;

// Threads: the training thread. State and logger outlive each call, but not necessarily the callback.
class Callback {
 public:
  virtual ~Callback() = default;
  // Returns Composer's class name, such as "SpeedMonitor". It is the key of the saved state.
  virtual std::string name() const = 0;
  // Returns the events that the callback wants. Asked once, when the callback is added.
  virtual EventSet events() const { return EventSet::All(); }
  // A non-OK status stops the run with that status.
  virtual absl::Status Run(Event event, State& state, Logger& logger) = 0;
  // Called once when the run is over, whether or not it succeeded (even if INIT failed), to finish files and stop
  // threads. A failure is logged and does not change the status of the run.
  virtual absl::Status Close(State& state, Logger& logger) { return absl::OkStatus(); }
  // Called once after every callback was closed, unless this one's Close failed, to give up what others may have used
  // while they closed. A failure is logged.
  virtual absl::Status PostClose() { return absl::OkStatus(); }
  // Returns one JSON value for the checkpoint, or "" when there is nothing to keep.
  virtual std::string SaveState() const { return ""; }
  virtual absl::Status LoadState(absl::string_view json) { return absl::OkStatus(); }
};

// A KeptTensor is a tensor of an algorithm that checkpoints save.
struct KeptTensor {
  // Unique within the algorithm. The checkpoint's name is `algorithms/<name of the algorithm>/<name>`.
  std::string name;
  at::Tensor tensor;
  // This is the model parameter whose shape the tensor has. When ranks hold pieces of the parameter, they hold the same
  // pieces of this tensor, and any number of ranks can load what any other number saved. If undefined, the tensor is
  // whole on every rank and rank 0's is saved.
  at::Tensor param;
  // If true, this tensor is saved as `model/<name>` and the model's own tensor of that name under the name above, so
  // that readers of the checkpoint see this one as the model. Loading reverses the swap.
  bool stands_for_model = false;
};

// An AlgorithmOrigin says how an algorithm was made from a job's file, so that it can be made again. Checkpoints keep
// it.
struct AlgorithmOrigin {
  std::string key;        // its name in the file, such as "blurpool"; "": it was not made from one
  std::string arguments;  // its keys there, as a JSON object, or "null"
  std::string plugin;     // the plugin that has it; "": built in
};

// What an algorithm may know of a run whose model is being made.
struct ModelContext {
  Precision precision;
  at::Device device = at::kCPU;            // of the run; the model has no memory yet or is on the CPU
  std::vector<LayerPolicy> policies = {};  // of all algorithms
};

// Has the same contract as Callback, but Match is asked first whether it applies (and changes nothing). Applications
// are traced.
class Algorithm {
 public:
  virtual ~Algorithm() = default;
  virtual std::string name() const = 0;
  // Returns the events at which Match is asked. Asked once, when the algorithm is added.
  virtual EventSet events() const { return EventSet::All(); }
  virtual bool Match(Event event, const State& state) const = 0;
  virtual absl::Status Apply(Event event, State& state, Logger& logger) = 0;

  // Changes the model before anything else is made from it: before tensor parallelism, activation checkpointing and
  // sharding take it apart, and before the optimizer exists. Called in the order of the passes (passes.h), as for INIT.
  // The model may have no memory: what is done to its tensors is recorded (init/deferred_init.h). Called again with a
  // new model each time one is made, for a dry run, say; it must do the same each time and keep nothing of the model.
  // See layers/replace_layers.h.
  virtual absl::Status ChangeModel(Model& model, const ModelContext& context) { return absl::OkStatus(); }

  // Returns the model to use in place of this one, which it may own. Called after ChangeModel and under its terms.
  virtual std::shared_ptr<Model> ReplaceModel(std::shared_ptr<Model> model) { return model; }

  // These describe the algorithm and must not change after construction.
  // It mixes the losses of two targets itself, so a second algorithm that does the same would spoil it.
  virtual bool interpolates_loss() const { return false; }
  // Some parameters may get no gradient in a step.
  virtual bool find_unused_parameters() const { return false; }
  // It differentiates through the gradients: after backward, until the step's next one, they have a graph. Only with
  // one rank.
  virtual bool backwards_create_graph() const { return false; }
  // It may add samples to a batch (reshape it), up to BATCH_START. The ranks then agree on the number of passes in a
  // small collective of each step; removing samples needs none.
  virtual bool adds_samples() const { return false; }
  // ChangeModel changes the model such that its checkpoints can only be loaded with the algorithm applied. They name
  // it, and a run that loads one without naming the algorithm itself has it added (resume/required_algorithms.h).
  virtual bool required_on_load() const { return false; }
  // Returns the optimizer to use in place of this one, which it may own. Called once, before INIT; `state` outlives it.
  virtual std::unique_ptr<Optimizer> WrapOptimizer(std::unique_ptr<Optimizer> optimizer, const State& /*state*/) {
    return optimizer;
  }

  // Returns references to the tensors to save and load now, the same list on all ranks. A background save takes its
  // snapshot before the next event.
  virtual std::vector<KeptTensor> tensors() const { return {}; }
  // Called before every load, also after one that failed. `json` is what SaveState returned in that checkpoint; "" if
  // it has no state of this algorithm or that state is not to be loaded. Afterwards tensors() must be what it was when
  // the checkpoint was saved (without json: at a fresh start); LoadState is called after their values are loaded.
  virtual absl::Status PrepareLoad(absl::string_view json) { return absl::OkStatus(); }
  // Swaps the tensors to use for inference into the model; false swaps back. Restores the same bits. May be called any
  // number of times with the same value, but not between a forward pass and its backward.
  virtual void UseForInference(bool on) {}

  virtual std::string SaveState() const { return ""; }
  virtual absl::Status LoadState(absl::string_view json) { return absl::OkStatus(); }

  // Set by what made the algorithm from a file.
  void SetOrigin(AlgorithmOrigin origin) { origin_ = std::move(origin); }
  const AlgorithmOrigin& origin() const { return origin_; }

 private:
  AlgorithmOrigin origin_;
};

// Swaps the weights to use for inference (with EMA the averages) into the model for a scope, on all ranks alike.
// `algorithms` is the state's list; none of them may be in use by another scope or a running evaluation.
class InferenceWeightsScope {
 public:
  explicit InferenceWeightsScope(const std::vector<std::unique_ptr<Algorithm>>& algorithms) : algorithms_(algorithms) {
    for (const auto& algorithm : algorithms_) algorithm->UseForInference(true);
  }
  ~InferenceWeightsScope() {
    for (auto it = algorithms_.rbegin(); it != algorithms_.rend(); ++it) (*it)->UseForInference(false);
  }
  InferenceWeightsScope(const InferenceWeightsScope&) = delete;
  InferenceWeightsScope& operator=(const InferenceWeightsScope&) = delete;

 private:
  const std::vector<std::unique_ptr<Algorithm>>& algorithms_;
};

}  // namespace composer
