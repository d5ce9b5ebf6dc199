// SPDX-License-Identifier: Apache-2.0
#include "trainer/callbacks/output/image_visualizer.h"

#include <torch/types.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "trainer/callbacks/output/image_tensors.h"
#include "trainer/core/logger.h"
#include "trainer/core/state.h"

namespace composer {
namespace {

void LogAs(const std::string& name, const std::vector<Image>& images, const State& state, Logger& logger) {
  logger.LogImages(ImageRecord{state.timestamp, name, images});
}

// Converts targets to [B, H, W]: from that shape, or from one number per class, [B, classes, H, W].
at::Tensor ClassesOf(const at::Tensor& targets, bool channels_last) {
  return targets.dim() == 4 ? targets.argmax(channels_last ? 3 : 1) : targets;
}

}  // namespace

EventSet ImageVisualizer::events() const {
  if (options_.mode == Mode::kInput) return {Event::kBeforeForward, Event::kEvalStart, Event::kEvalBeforeForward};
  return {Event::kBeforeLoss, Event::kEvalStart, Event::kEvalAfterForward};
}

bool ImageVisualizer::IsDue(Event event, const State& state) {
  if (event == Event::kEvalBeforeForward || event == Event::kEvalAfterForward)
    return state.evaluation.timestamp.batch == 0 && !std::exchange(shown_, true);
  const int64_t now = state.timestamp.Get(options_.interval.unit());
  if (now == last_ || now % options_.interval.count() != 0) return false;
  last_ = now;
  return true;
}

absl::Status ImageVisualizer::Run(Event event, State& state, Logger& logger) {
  if (event == Event::kEvalStart) {
    shown_ = false;
    return absl::OkStatus();
  }
  if (!logger.has_destinations() || !IsDue(event, state)) return absl::OkStatus();
  const at::Tensor& inputs = state.batch.Get(options_.input_key);
  if (!IsImageBatch(inputs)) return absl::OkStatus();
  const bool of_evaluation = event == Event::kEvalBeforeForward || event == Event::kEvalAfterForward;
  const std::string name = of_evaluation ? "Images/Eval" : "Images/Train";
  const int64_t count = options_.num_images;
  LogAs(name, ImagesOf(inputs, count, options_.channels_last), state, logger);
  if (options_.mode == Mode::kInput) return absl::OkStatus();
  const at::Tensor& targets = state.batch.Get(options_.target_key);
  if (!state.outputs.defined() || state.outputs->dim() != 4 || !targets.defined() || targets.dim() < 3) {
    return absl::InvalidArgumentError(
        "image_visualizer: mode segmentation needs outputs [B, classes, H, W] and targets [B, H, W]; use mode: input");
  }
  LogAs(absl::StrCat(name, "/prediction"), MasksOf(ClassesOf(state.outputs, options_.channels_last), count), state,
        logger);
  LogAs(absl::StrCat(name, "/ground_truth"), MasksOf(ClassesOf(targets, options_.channels_last), count), state, logger);
  return absl::OkStatus();
}

}  // namespace composer
