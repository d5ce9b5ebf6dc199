// Everything that a program or a plugin needs of Composer. Code that defines its own modules also includes
// <torch/torch.h>.
// Guide: docs/api.md; plugins: docs/plugins.md.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <composer/version.h>

// The trainer, and what a run is.
#include "base/time.h"
#include "base/time_arithmetic.h"
#include "trainer/core/block.h"
#include "trainer/core/callback.h"
#include "trainer/core/event.h"
#include "trainer/core/state.h"
#include "trainer/core/torch_status.h"
#include "trainer/loop/generate_loop.h"
#include "trainer/options/trainer_options.h"
#include "trainer/trainer.h"

// Data.
#include "trainer/core/batch.h"
#include "trainer/core/dataset.h"
#include "trainer/data/fashion_mnist.h"
#include "trainer/data/synthetic.h"
#include "trainer/data/tensor_dataset.h"
#include "trainer/data/text_bytes.h"

// Models, losses, metrics.
#include "trainer/core/metric.h"
#include "trainer/core/model.h"
#include "trainer/core/outputs.h"
#include "trainer/core/tokenizer.h"
#include "trainer/layers/attention_core.h"
#include "trainer/layers/layer.h"
#include "trainer/layers/layer_list.h"
#include "trainer/layers/replace_layers.h"
#include "trainer/layers/slot.h"
#include "trainer/layers/torch_layers.h"
#include "trainer/loss/binary_cross_entropy.h"
#include "trainer/loss/cross_entropy.h"
#include "trainer/loss/dice_loss.h"
#include "trainer/metrics/accuracy.h"
#include "trainer/metrics/cross_entropy.h"
#include "trainer/metrics/f1_score.h"
#include "trainer/metrics/loss_metric.h"
#include "trainer/metrics/metric_by_name.h"
#include "trainer/metrics/metric_sums.h"
#include "trainer/metrics/segmentation.h"
#include "trainer/models/attention_cache.h"
#include "trainer/models/causal_decoder.h"
#include "trainer/models/classifier.h"
#include "trainer/models/gpt.h"
#include "trainer/models/gpt_tensor_parallel.h"
#include "trainer/models/initializers.h"
#include "trainer/models/language_model.h"
#include "trainer/models/mlp.h"
#include "trainer/models/resnet_small.h"
#include "trainer/models/sampling.h"
#include "trainer/models/torchscript.h"
#include "trainer/tokenizers/byte_tokenizer.h"

// Optimizers and schedules.
#include "trainer/core/optimizer.h"
#include "trainer/core/scheduler.h"
#include "trainer/optim/adam.h"
#include "trainer/optim/decoupled_adamw.h"
#include "trainer/optim/decoupled_sgdw.h"
#include "trainer/optim/lion.h"
#include "trainer/optim/model_params.h"
#include "trainer/optim/muon.h"
#include "trainer/optim/muon_groups.h"
#include "trainer/optim/one_cycle.h"
#include "trainer/optim/param_groups.h"
#include "trainer/optim/recipes.h"
#include "trainer/optim/reduce_lr_on_plateau.h"
#include "trainer/optim/rmsprop.h"
#include "trainer/optim/schedules.h"
#include "trainer/optim/sgd.h"
#include "trainer/optim/torch_schedules.h"

// Algorithms.
#include "trainer/algorithms/ema.h"
#include "trainer/algorithms/ema_options.h"
#include "trainer/algorithms/optimisation/gradient_clipping.h"
#include "trainer/algorithms/optimisation/sam.h"
#include "trainer/algorithms/optimisation/selective_backprop.h"
#include "trainer/algorithms/surgery/blur_pool.h"
#include "trainer/algorithms/surgery/low_precision_layer_norm.h"
#include "trainer/algorithms/surgery/squeeze_excite.h"
#include "trainer/algorithms/surgery/surgery.h"

// Callbacks.
#include "trainer/callbacks/memory/free_outputs.h"
#include "trainer/callbacks/memory/memory_snapshot.h"
#include "trainer/callbacks/memory/oom_observer.h"
#include "trainer/callbacks/monitors/activation_monitor.h"
#include "trainer/callbacks/monitors/device_peaks.h"
#include "trainer/callbacks/monitors/lr_monitor.h"
#include "trainer/callbacks/monitors/memory_monitor.h"
#include "trainer/callbacks/monitors/nan_monitor.h"
#include "trainer/callbacks/monitors/optimizer_monitor.h"
#include "trainer/callbacks/monitors/runtime_estimator.h"
#include "trainer/callbacks/monitors/speed_monitor.h"
#include "trainer/callbacks/monitors/system_metrics_monitor.h"
#include "trainer/callbacks/monitors/throughput.h"
#include "trainer/callbacks/output/export_for_inference.h"
#include "trainer/callbacks/output/image_visualizer.h"
#include "trainer/callbacks/output/log_hyperparameters.h"
#include "trainer/callbacks/output/mlperf.h"
#include "trainer/callbacks/output/sample_recorder.h"
#include "trainer/callbacks/stops/early_stopper.h"
#include "trainer/callbacks/stops/threshold_stopper.h"

// Loggers.
#include "trainer/core/logger.h"
#include "trainer/loggers/console_logger.h"
#include "trainer/loggers/file_logger.h"
#include "trainer/loggers/in_memory.h"
#include "trainer/loggers/json_lines.h"
#include "trainer/loggers/progress_bar.h"
#include "trainer/loggers/remote_uploader.h"
#include "trainer/loggers/table_lines.h"
#include "trainer/loggers/tensorboard_logger.h"

// Profiler.
#include "trainer/profiler/profiler.h"

// Several ranks.
#include "trainer/collectives/c10d_communicator.h"
#include "trainer/core/communicator.h"

// Plugins.
#include "job/plugin/plugin.h"
