// The graphs of a run's steps, one for each shape of batch, up to kMostGraphs: some steps of a shape are made as they
// come, then one is captured, and from there on the graph is replayed over tensors into which each batch is copied
// (graph_choice.h decides). When a capture fails, the reason is logged, and all steps are made as they come.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "trainer/core/batch.h"
#include "trainer/core/outputs.h"
#include "trainer/step/device_graph.h"
#include "trainer/step/device_read.h"

namespace composer {

// A step whose forward pass, backward pass and update are queued; the host has waited for nothing. A replay computes
// all these tensors again.
struct QueuedStep {
  DeviceRead read;     // of `numbers`: Hand gives them to whom they belong
  at::Tensor numbers;  // what the host must know of the step
  Outputs outputs;     // of the last microbatch, as is the loss
  at::Tensor loss;
  std::vector<std::pair<std::string, at::Tensor>> loss_parts;
  std::vector<at::Tensor> gradients;  // by parameter; undefined: none
  std::string unfit;                  // what a replay would leave out; "": nothing
  bool replayed = false;              // the host has not run it
  std::function<void()> prepare;      // called before each replay: puts what the host sends with it in its place
};

// Threads: the training thread.
class StepGraphs {
 public:
  // `capture` must outlive this object. `speaks`: it logs.
  // must_capture: a capture that fails throws StatusError, since other ranks' collectives wait for this one's.
  StepGraphs(GraphCapture& capture, bool speaks, bool must_capture)
      : capture_(capture), speaks_(speaks), must_capture_(must_capture) {}
  // Makes a step with `queue`, which is given the batch to use and must queue the same for equal shapes and equal
  // `settings` (numbers of any meaning), or with a graph of it. `may_capture` is false for a step that must run as it
  // comes. Throws what `queue` throws. The result is valid until the next call.
  const QueuedStep& Step(const Batch& batch, const std::vector<uint64_t>& settings, bool may_capture,
                         const std::function<QueuedStep(const Batch&)>& queue);

 private:
  struct Shape {
    Batch like;  // of this shape, without data
    std::vector<uint64_t> settings;
    int64_t steps = 0;
    Batch batch;      // the graph's own tensors
    QueuedStep step;  // its memory is the graph's
    std::unique_ptr<DeviceGraph> graph;
  };
  // Returns the shape of a batch, a new one if there is room for it, else null.
  Shape* FindShape(const Batch& batch, const std::vector<uint64_t>& settings);
  const QueuedStep& Replay(const Batch& batch, Shape& shape);
  // Returns whether the shape has a graph now; else the shape is gone.
  bool Capture(const Batch& batch, Shape& shape, const std::function<QueuedStep(const Batch&)>& queue);
  void SayTooMany();
  void SayOnce(const std::string& text);

  GraphCapture& capture_;
  const bool speaks_, must_capture_;
  bool gave_up_ = false;  // a capture has failed
  int64_t graphs_ = 0;
  std::vector<Shape> shapes_;
  QueuedStep eager_;
  std::string said_;
};

}  // namespace composer
