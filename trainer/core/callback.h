// Callbacks watch a run (and may stop it); algorithms change it. Both are called by the Engine.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "trainer/core/event.h"

namespace composer {

class Logger;
struct State;

// Threads: the training thread. State and logger outlive the callback's calls, not the calls' end.
class Callback {
 public:
  virtual ~Callback() = default;
  // Composer's class name: "SpeedMonitor". Keys the saved state.
  virtual std::string name() const = 0;
  // The events it wants; asked once, when it is added.
  virtual EventSet events() const { return EventSet::All(); }
  // A non-OK status stops the run with that status.
  virtual absl::Status Run(Event event, State& state, Logger& logger) = 0;
  // The run is over, well or not (INIT may have failed, too): finish files, stop threads. Called once. A failure is
  // logged, the status of the run stays what it is.
  virtual absl::Status Close(State& state, Logger& logger) { return absl::OkStatus(); }
  // One JSON value for the checkpoint; "" when there is nothing to keep.
  virtual std::string SaveState() const { return ""; }
  virtual absl::Status LoadState(absl::string_view json) { return absl::OkStatus(); }
};

// A tensor of an algorithm that checkpoints hold.
struct KeptTensor {
  // In the checkpoint `algorithms/<name of the algorithm>/<name>`; unique in the algorithm.
  std::string name;
  at::Tensor tensor;
  // The parameter of the model whose shape it has: when ranks hold pieces of that, they hold the same pieces of this, and
  // any number of ranks can load what any other has saved. Undefined: whole on every rank; rank 0's is saved.
  at::Tensor param;
  // Saved as `model/<name>`, where the model's own tensor of that name is saved under the name above instead: for those
  // who read a checkpoint, this is the model. Loading is the same the other way round.
  bool stands_for_model = false;
};

// Same contract, but asked first whether it applies (Match changes nothing); applications are traced.
class Algorithm {
 public:
  virtual ~Algorithm() = default;
  virtual std::string name() const = 0;
  // The events at which Match is asked; asked once, when it is added.
  virtual EventSet events() const { return EventSet::All(); }
  virtual bool Match(Event event, const State& state) const = 0;
  virtual absl::Status Apply(Event event, State& state, Logger& logger) = 0;

  // What an algorithm says of itself; must not change after construction. The trainer acts on interpolates_loss alone
  // so far: what the others promise, the user has to see to (ddp_config.find_unused_parameters; the job file names the
  // algorithms when it loads).
  // Mixes the losses of two targets itself, so that another that does the same would spoil it.
  virtual bool interpolates_loss() const { return false; }
  // Some parameters may get no gradient in a step.
  virtual bool find_unused_parameters() const { return false; }
  // Differentiates through the gradients: backward keeps its graph.
  virtual bool backwards_create_graph() const { return false; }
  // Changes the model such that its checkpoint can be loaded only with the algorithm applied.
  virtual bool required_on_load() const { return false; }

  // The tensors to be saved and loaded now: references, the same list on all ranks. The snapshot of a save that goes on
  // behind the training is taken before the next event.
  virtual std::vector<KeptTensor> tensors() const { return {}; }
  // A checkpoint is about to be loaded, `json` is what SaveState said in it; "": it has nothing of this algorithm, or its
  // part is not to be loaded. After it tensors() is what it was when the checkpoint was saved, or without json at a
  // fresh start, and LoadState comes after their values. Called at every load, also after one that failed.
  virtual absl::Status PrepareLoad(absl::string_view json) { return absl::OkStatus(); }
  // The model's tensors as one would use it now, instead of trained on; false: back. Bits are restored. Any number of
  // calls with the same value; not between a forward pass and its backward.
  virtual void UseForInference(bool on) {}

  virtual std::string SaveState() const { return ""; }
  virtual absl::Status LoadState(absl::string_view json) { return absl::OkStatus(); }
};

// The weights that a run's algorithms would have one use, for a scope: with EMA the averages. All ranks alike.
// algorithms: of the state; none of them is in use by another scope or a running evaluation.
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
