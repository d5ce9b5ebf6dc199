// Passes the first images of a batch to the loggers, every `interval` batches (or epochs) of training and at the start
// of each evaluation: Images/Train, Images/Eval. With mode segmentation it also logs Images/Train/prediction (the class
// with the largest output) and Images/Train/ground_truth, as colours. Batches that are not images (image_tensors.h) are
// skipped.
// Source: mosaicml composer/callbacks/image_visualizer.py.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "base/time.h"
#include "trainer/core/callback.h"

namespace composer {

class ImageVisualizer final : public Callback {
 public:
  enum class Mode {
    kInput,
    kSegmentation,  // outputs [B, classes, H, W], targets [B, H, W] or of the outputs' shape
  };
  struct Options {
    Time interval = Time::Batches(100);  // kBatch or kEpoch, at least 1
    Mode mode = Mode::kInput;
    int64_t num_images = 8;  // at most; fewer when the microbatch has fewer
    bool channels_last = false;
    std::string input_key = "inputs", target_key = "targets";  // Batch::Get; an error where a batch has no such tensor
  };
  explicit ImageVisualizer(const Options& options) : options_(options) {}

  std::string name() const override { return "ImageVisualizer"; }
  EventSet events() const override;
  absl::Status Run(Event event, State& state, Logger& logger) override;

 private:
  bool IsDue(Event event, const State& state);

  Options options_;
  int64_t last_ = -1;   // when training images were last logged, in the interval's unit
  bool shown_ = false;  // the current evaluation's images are logged: its first batch may be several microbatches
};

}  // namespace composer
