// Everything a program or a plugin needs of Composer. Code that writes modules of its own includes <torch/torch.h> too.
// Guide: docs/api.md; plugins: docs/plugins.md.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <composer/version.h>

// The trainer, and what a run is.
#include "trainer/core/callback.h"
#include "trainer/core/event.h"
#include "trainer/core/state.h"
#include "trainer/core/time.h"
#include "trainer/core/time_arithmetic.h"
#include "trainer/torch_status.h"
#include "trainer/trainer.h"
#include "trainer/trainer_options.h"

// Data.
#include "trainer/data/batch.h"
#include "trainer/data/dataset.h"
#include "trainer/data/fashion_mnist.h"
#include "trainer/data/synthetic.h"
#include "trainer/data/text_bytes.h"

// Models, losses, metrics.
#include "trainer/loss/cross_entropy.h"
#include "trainer/metrics/accuracy.h"
#include "trainer/metrics/cross_entropy.h"
#include "trainer/metrics/metric.h"
#include "trainer/metrics/metric_sums.h"
#include "trainer/models/classifier.h"
#include "trainer/models/gpt.h"
#include "trainer/models/mlp.h"
#include "trainer/models/model.h"
#include "trainer/models/resnet_small.h"
#include "trainer/models/torchscript.h"

// Optimizers and schedules.
#include "trainer/optim/decoupled_adamw.h"
#include "trainer/optim/decoupled_sgdw.h"
#include "trainer/optim/model_params.h"
#include "trainer/optim/optimizer.h"
#include "trainer/optim/param_groups.h"
#include "trainer/optim/scheduler.h"
#include "trainer/optim/schedules.h"

// Callbacks.
#include "trainer/callbacks/early_stopper.h"
#include "trainer/callbacks/lr_monitor.h"
#include "trainer/callbacks/memory_monitor.h"
#include "trainer/callbacks/nan_monitor.h"
#include "trainer/callbacks/runtime_estimator.h"
#include "trainer/callbacks/sample_recorder.h"
#include "trainer/callbacks/speed_monitor.h"
#include "trainer/callbacks/threshold_stopper.h"

// Loggers.
#include "trainer/loggers/in_memory.h"
#include "trainer/loggers/json_lines.h"
#include "trainer/loggers/logger.h"
#include "trainer/loggers/progress_bar.h"

// Profiler.
#include "trainer/profiler/profiler.h"

// Several ranks.
#include "trainer/parallel/c10d_communicator.h"
#include "trainer/parallel/communicator.h"
#include "trainer/parallel/local_communicator.h"

// Plugins.
#include "worker/plugin.h"
