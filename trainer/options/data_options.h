// What a run trains on and evaluates on. Names and defaults are those of Composer's Trainer arguments (see
// trainer_options.h).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/time.h"
#include "trainer/core/dataset.h"
#include "trainer/core/event.h"
#include "trainer/core/metric.h"
#include "trainer/options/prefetch_options.h"

namespace composer {

struct TrainDataOptions {
  std::shared_ptr<const Dataset> dataset;
  std::string label = "train";
  DataSpec spec;  // what is done with each batch
  // Samples of one optimizer step over all ranks. 0 means device_train_batch_size x the ranks of the first launch (then
  // frozen in the checkpoint).
  int64_t global_train_batch_size = 0;
  int64_t device_train_batch_size = 0;
  bool shuffle = true;
  OrderFactory make_order;  // in place of `shuffle`; empty: none. Not for an IterableDataset, which has its own order
  bool drop_last = false;
  int64_t train_subset_num_batches = -1;  // batches per epoch; -1: all
  int64_t predownload = 0;                // samples ahead that Dataset::WillLoad hears of
  // Composer's DataLoader arguments. With 0 threads the training thread loads.
  PrefetchOptions prefetch;
};

// An evaluator is one evaluation: its data, its metrics (from the model's evaluation metrics) and its interval.
struct EvaluatorOptions {
  std::string label = "eval";
  std::shared_ptr<const Dataset> dataset;
  DataSpec spec;
  int64_t batch_size = 256;  // per rank
  int64_t subset_num_batches = -1;
  // A time with count 0 means only on request. A function is asked at BATCH_END, EPOCH_END, ITERATION_END and FIT_END.
  Interval eval_interval = Time::Epochs(1);
  // Selects among the model's evaluation metrics: regular expressions that match anywhere in the name, ignoring case.
  // Empty selects all.
  std::vector<std::string> metric_names;
  // Makes this evaluation's own metrics in place of the model's. Empty: the model's.
  std::function<MetricList()> make_metrics;
  int64_t device_eval_microbatch_size = 0;  // samples per forward pass; 0: the whole batch; kAutoMicrobatch
  PrefetchOptions prefetch;
};

}  // namespace composer
