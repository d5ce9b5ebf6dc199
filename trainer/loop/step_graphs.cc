// SPDX-License-Identifier: Apache-2.0
#include "trainer/loop/step_graphs.h"

#include <torch/types.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "trainer/core/torch_status.h"
#include "trainer/loop/graph_choice.h"

namespace composer {
namespace {

constexpr size_t kMostShapes = 64;  // that are counted

// A batch of tensors on a GPU, and nothing else that a model could look at.
bool IsPlain(const Batch& batch) {
  const auto is_there = [](const at::Tensor& tensor) { return !tensor.defined() || !tensor.is_cpu(); };
  bool plain = batch.ragged.empty() && batch.texts.empty() && batch.data == nullptr && batch.num_samples > 0 &&
               is_there(batch.inputs) && is_there(batch.targets);
  for (const auto& [name, tensor] : batch.extra) plain = plain && is_there(tensor);
  return plain;
}

bool SameShape(const at::Tensor& a, const at::Tensor& b) {
  if (!a.defined() || !b.defined()) return a.defined() == b.defined();
  return a.scalar_type() == b.scalar_type() && a.sizes() == b.sizes() && a.strides() == b.strides();
}

bool SameShape(const Batch& a, const Batch& b) {
  const auto same = [](const auto& x, const auto& y) { return x.first == y.first && SameShape(x.second, y.second); };
  return a.num_samples == b.num_samples && SameShape(a.inputs, b.inputs) && SameShape(a.targets, b.targets) &&
         std::equal(a.extra.begin(), a.extra.end(), b.extra.begin(), b.extra.end(), same);
}

at::Tensor Own(const at::Tensor& tensor) { return tensor.clone(); }

at::Tensor WithoutData(const at::Tensor& tensor) {
  return torch::empty_strided(tensor.sizes(), tensor.strides(), tensor.options().device(at::kMeta));
}

// Returns a batch with `tensor_of` of each tensor. Which samples they are is not known: those of a replay are others.
Batch CopyBatch(const Batch& batch, at::Tensor (*tensor_of)(const at::Tensor&)) {
  Batch copy = batch;
  if (batch.inputs.defined()) copy.inputs = tensor_of(batch.inputs);
  if (batch.targets.defined()) copy.targets = tensor_of(batch.targets);
  for (auto& [name, tensor] : copy.extra) {
    if (tensor.defined()) tensor = tensor_of(tensor);
  }
  copy.sample_ids.clear();
  return copy;
}

void CopyInto(const Batch& own, const Batch& batch) {
  const torch::NoGradGuard no_grad;
  if (own.inputs.defined()) own.inputs.copy_(batch.inputs, /*non_blocking=*/true);
  if (own.targets.defined()) own.targets.copy_(batch.targets, /*non_blocking=*/true);
  for (const auto& [name, tensor] : own.extra) tensor.copy_(batch.extra.at(name), /*non_blocking=*/true);
}

}  // namespace

StepGraphs::Shape* StepGraphs::FindShape(const Batch& batch, const std::vector<uint64_t>& settings) {
  for (Shape& shape : shapes_) {
    if (shape.settings == settings && SameShape(shape.like, batch)) return &shape;
  }
  if (shapes_.size() == kMostShapes) return nullptr;
  shapes_.push_back({.like = CopyBatch(batch, WithoutData), .settings = settings});
  return &shapes_.back();
}

const QueuedStep& StepGraphs::Step(const Batch& batch, const std::vector<uint64_t>& settings, bool may_capture,
                                   const std::function<QueuedStep(const Batch&)>& queue) {
  const bool counts = may_capture && !gave_up_ && IsPlain(batch);
  if (Shape* const found = counts ? FindShape(batch, settings) : nullptr; found != nullptr) {
    Shape& shape = *found;
    switch (NextGraphAction(shape.graph != nullptr, shape.steps++, graphs_)) {
      case GraphAction::kReplay:
        return Replay(batch, shape);
      case GraphAction::kCapture:
        if (Capture(batch, shape, queue)) return Replay(batch, shape);
        break;
      case GraphAction::kEager:
        if (shape.steps > kGraphWarmUpSteps) SayTooMany();
        break;
    }
  }
  eager_ = {};  // before the next step needs its memory
  eager_ = queue(batch);
  return eager_;
}

const QueuedStep& StepGraphs::Replay(const Batch& batch, Shape& shape) {
  eager_ = {};
  CopyInto(shape.batch, batch);
  if (shape.step.prepare != nullptr) shape.step.prepare();
  shape.graph->Replay();
  return shape.step;
}

bool StepGraphs::Capture(const Batch& batch, Shape& shape, const std::function<QueuedStep(const Batch&)>& queue) {
  shape.batch = CopyBatch(batch, Own);
  try {
    capture_.Begin();
    shape.step = queue(shape.batch);
    TORCH_CHECK(shape.step.unfit.empty(), shape.step.unfit);
    shape.graph = capture_.End();
    shape.step.replayed = true;
    ++graphs_;
    return true;
  } catch (...) {
    const absl::Status status = StatusFromCurrentException();
    const std::string why(status.message().substr(0, status.message().find('\n')));
    capture_.Abandon();
    if (must_capture_)
      throw StatusError(
          absl::InvalidArgumentError(absl::StrCat("cuda_graphs: true: the step cannot be captured, and with several "
                                                  "ranks its collectives cannot be taken back: ",
                                                  why, "; set cuda_graphs: false")));
    SayOnce(absl::StrCat("cuda_graphs: the step cannot be captured, and goes on without a graph: ", why));
  }
  gave_up_ = true;
  shapes_.clear();
  return false;
}

void StepGraphs::SayTooMany() {
  SayOnce(absl::StrCat("cuda_graphs: batches have more than ", kMostGraphs,
                       " shapes; those of further ones are trained on without a graph"));
}

void StepGraphs::SayOnce(const std::string& text) {
  if (said_.find(text) != std::string::npos) return;
  absl::StrAppend(&said_, text, "\n");
  if (speaks_) LOG(WARNING) << text;
}

}  // namespace composer
