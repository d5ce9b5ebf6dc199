// SPDX-License-Identifier: Apache-2.0
#include "views/read/metric_names.h"

#include <fnmatch.h>

namespace composer {
namespace {

// The first that fits counts, so that a name comes before a pattern that has it, too.
constexpr MetricMeaning kMeanings[] = {
    {"loss/train/total", "always", "the loss of the step: the mean over the global batch"},
    {"loss/train/<part>", "models with several losses", "one of them, before they are added up"},
    {"metrics/train/<Metric>", "train_metrics_interval", "a metric of the model over the samples of one step"},
    {"metrics/<label>/<n>-shot/<Metric>", "icl_tasks", "a metric of an in-context task"},
    {"metrics/<label>/<Metric>", "evaluators", "a metric over the data of an evaluator, after each evaluation"},
    {"icl/metrics/eval_gauntlet/<name>", "eval_gauntlet", "the mean score of a category, or an average of categories"},
    {"lr-<Optimizer>/group<i>", "always", "the learning rate of a group of parameters in this step"},
    {"throughput/samples_per_sec", "always", "samples a second of all ranks, over the last 50 batches"},
    {"throughput/tokens_per_sec", "data with tokens", "tokens a second of all ranks, over the last 50 batches"},
    {"throughput/data_wait", "always", "share of the last 50 steps' time in which rank 0 waited for its batches"},
    {"throughput/batches_per_sec", "speed_monitor", "batches a second, over its window"},
    {"throughput/flops_per_sec", "speed_monitor",
     "floating-point operations a second of all ranks, as the model counts"},
    {"throughput/device/mfu", "speed_monitor", "operations a second over the device's peak: 0 to 1"},
    {"throughput/device/<rate>", "speed_monitor", "the rate of this name divided by the number of ranks"},
    {"time/train", "speed_monitor", "time spent training, in its unit (hours)"},
    {"time/val", "speed_monitor", "time spent in evaluations, in its unit (hours)"},
    {"time/total", "speed_monitor", "both together"},
    {"time/remaining_estimate", "runtime_estimator", "estimated time to the end of the run, in its unit (hours)"},
    {"memory/alloc_retries", "memory_monitor", "how often the GPU's allocator had to free its cache to go on"},
    {"memory/<what>_avg", "memory_monitor", "the mean over ranks, with dist_aggregate_batch_interval"},
    {"memory/<what>_min", "memory_monitor", "the least of all ranks, with dist_aggregate_batch_interval"},
    {"memory/<what>_max", "memory_monitor", "the most of all ranks, with dist_aggregate_batch_interval"},
    {"memory/current_resident_mem", "memory_monitor", "memory of the process on a CPU, GB (1e9 bytes)"},
    {"memory/peak_resident_mem", "memory_monitor", "its peak since the process began, GB"},
    {"memory/<what>", "memory_monitor", "the GPU allocator's current or peak bytes of this kind, GB"},
    {"l2_norm/grad/global", "optimizer_monitor", "L2 norm of all gradients, before clipping by the optimizer"},
    {"l2_norm/grad/<parameter>", "optimizer_monitor", "L2 norm of a gradient"},
    {"l2_norm/param/<parameter>", "optimizer_monitor", "L2 norm of a parameter"},
    {"l2_norm/moment/<parameter>", "optimizer_monitor", "L2 norm of the optimizer's first moment"},
    {"l2_norm/update/<parameter>", "optimizer_monitor", "L2 norm of the change that the step made"},
    {"activations/<statistic>/<module>", "activation_monitor", "l2_norm, average, kurtosis or max of an output"},
    {"cpu_percentage", "system_metrics_monitor", "processors in use on rank 0's machine, percent of all"},
    {"cpu_memory_percent", "system_metrics_monitor", "memory in use on rank 0's machine, percent"},
    {"cpu_memory_<what>", "system_metrics_monitor", "memory of rank 0's machine, bytes"},
    {"disk_memory_percent", "system_metrics_monitor", "share of the run folder's disk that is full, percent"},
    {"disk_memory_<what>", "system_metrics_monitor", "the run folder's disk, bytes"},
    {"network_<what>", "system_metrics_monitor", "bytes, packets, errors and drops since the machine started"},
    {"min_gpu_<what>", "system_metrics_monitor", "least of the GPUs: percent, degrees Celsius, watts, errors, 0 or 1"},
    {"max_gpu_<what>", "system_metrics_monitor", "greatest of the GPUs"},
    {"min_memory_percentage", "system_metrics_monitor",
     "least share of time in which a GPU's memory was used, percent"},
    {"max_memory_percentage", "system_metrics_monitor", "greatest of them"},
    {"gpu_<what>_rank_<n>", "system_metrics_monitor", "of one GPU, with log_all_data"},
    {"memory_percentage_rank_<n>", "system_metrics_monitor", "of one GPU, with log_all_data"},
    {"nan/skipped_steps", "on_nan: skip", "steps whose update was left out, since the run began"},
    {"trainer/device_train_microbatch_size", "device_train_microbatch_size: auto", "samples of a microbatch on a rank"},
    {"trainer/graph_replay", "cuda_graphs", "1 if the step was the replay of a graph, else 0"},
    {"trainer/<label>/device_eval_microbatch_size", "device_eval_microbatch_size",
     "samples of a pass of an evaluation"},
    {"algorithm_traces/<Algorithm>/<event>", "log_traces", "1 in each step in which the algorithm was applied"},
    {"progressive_layer_dropping/theta", "progressive_layer_dropping", "the keep rate of the layers: 0 to 1"},
    {"stochastic_depth/drop_rate", "stochastic_depth", "the rate at which blocks are left out: 0 to 1"},
    {"progressive_resizing/<what>", "progressive_resizing", "height, width and scale_factor of the images"},
    {"layer_freezing/layers_frozen", "layer_freezing", "layers that are not trained any more"},
    {"layer_freezing/percentage_frozen", "layer_freezing", "share of the layers that are frozen: 0 to 1"},
    {"batch_size_warmup/part", "batch_size_warmup", "share of the batch that is used: 0 to 1"},
    {"seq_length_warmup/curr_seq_len", "seq_length_warmup", "tokens of a sequence in this step"},
    {"seq_length_warmup/curr_bs", "seq_length_warmup", "sequences of a rank in this step"},
};

}  // namespace

const MetricMeaning* FindMeaning(const std::string& name) {
  for (const MetricMeaning& meaning : kMeanings) {
    std::string pattern;
    bool named = true;
    for (const char c : meaning.name) {
      if (c == '<') pattern += "?*";
      if (c == '<' || c == '>') named = c == '>';
      if (named && c != '>') pattern += c;
    }
    if (fnmatch(pattern.c_str(), name.c_str(), 0) == 0) return &meaning;
  }
  return nullptr;
}

}  // namespace composer
