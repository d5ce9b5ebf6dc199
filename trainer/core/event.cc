// SPDX-License-Identifier: Apache-2.0
#include "trainer/core/event.h"

#include <array>

namespace composer {
namespace {

constexpr std::array<absl::string_view, kNumEvents> kNames = {
    "init",
    "before_load",
    "after_load",
    "fit_start",
    "iteration_start",
    "epoch_start",
    "before_dataloader",
    "after_dataloader",
    "batch_start",
    "before_train_batch",
    "before_forward",
    "after_forward",
    "before_loss",
    "after_loss",
    "before_backward",
    "after_backward",
    "after_train_batch",
    "batch_end",
    "batch_checkpoint",
    "epoch_end",
    "epoch_checkpoint",
    "iteration_end",
    "iteration_checkpoint",
    "fit_end",
    "eval_before_all",
    "eval_start",
    "eval_batch_start",
    "eval_before_forward",
    "eval_after_forward",
    "eval_batch_end",
    "eval_end",
    "eval_after_all",
    "eval_standalone_start",
    "eval_standalone_end",
    "predict_start",
    "predict_batch_start",
    "predict_before_forward",
    "predict_after_forward",
    "predict_batch_end",
    "predict_end",
};

}  // namespace

absl::string_view EventName(Event event) { return kNames[static_cast<size_t>(event)]; }

bool IsAfterEvent(Event event) { return EventName(event).substr(0, 6) == "after_"; }

}  // namespace composer
