// Whether the steps of a run may be captured as graphs (cuda_graphs), and what is done with the next one. Pure
// decisions; step_graphs.h acts on them.
//
// A graph repeats what was launched, with the same addresses and numbers. So nothing inside a step may be decided on
// the host from what the device computes, nor change from step to step, but the contents of tensors: the batch, the
// learning rate, the seed of random numbers.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace composer {

// What a run does in a step, as far as it matters here.
struct GraphFacts {
  bool device_captures = true;     // the device is a GPU, and was given a way to capture
  bool on_default_stream = false;  // of the training thread; it cannot be captured
  bool sums_on_host = false;       // those over ranks are, or need the host
  bool fp16_scaler = false;
  bool auto_microbatch = false;
  bool on_tokens = false;                    // accumulate_train_batch_on_tokens
  bool elastic = false;                      // determinism: elastic
  bool wraps_activations = false;            // activation checkpointing or offload
  bool transforms_microbatch = false;        // DataSpec::microbatch_transform, or functions that split or count batches
  std::string host_optimizer = {};           // its name, if its update is decided on the host
  std::vector<std::string> algorithms = {};  // all
  std::vector<std::string> step_callbacks = {};  // those with an event inside the step
};

// Returns why no step may be captured, as the end of a sentence, or "".
std::string WhyNoGraphs(const GraphFacts& facts);

inline constexpr int kGraphWarmUpSteps = 3;  // of each shape: what is made once is made there, kernels are chosen
inline constexpr int kMostGraphs = 4;        // each has memory of its own

enum class GraphAction { kEager, kCapture, kReplay };

// Returns what to do with a step. has_graph: there is one of its shape; steps: so many of this shape were made already;
// graphs: there are so many of any shape.
GraphAction NextGraphAction(bool has_graph, int64_t steps, int64_t graphs);

}  // namespace composer
