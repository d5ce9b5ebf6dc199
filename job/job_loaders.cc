// SPDX-License-Identifier: Apache-2.0
#include "job/job_loaders.h"

#include <utility>
#include <vector>

#include "job/data/icl_rows.h"
#include "job/job_data.h"
#include "job/job_model.h"
#include "job/plugin/job_time.h"

namespace composer {
namespace {

constexpr int64_t kMaxSamples = int64_t{1} << 36;

// Reads torch's DataLoader arguments.
PrefetchOptions ReadPrefetch(ConfigMap& loader, const Job& job) {
  PrefetchOptions options;
  options.num_workers = static_cast<int>(loader.Int("num_workers", options.num_workers, {.min = 0, .max = 256}));
  options.prefetch_factor =
      static_cast<int>(loader.Int("prefetch_factor", options.prefetch_factor, {.min = 1, .max = 1024}));
  options.timeout = absl::Seconds(loader.Double("timeout", 0, {.min = 0}));
  options.pin_memory = loader.Bool("pin_memory", job.gpu);
  if (options.timeout > absl::ZeroDuration() && options.num_workers == 0)
    loader.Reject("timeout", "needs num_workers of at least 1: a thread that can be waited for");
  if (options.pin_memory && !job.gpu) loader.Reject("pin_memory", "needs device: gpu");
  return options;
}

}  // namespace

void ReadTrainData(ConfigMap root, bool trains, Job& job) {
  TrainDataOptions& train = job.options.train;
  ConfigMap loader = root.Map("train_dataloader");
  if (trains && !loader.exists()) root.Reject("train_dataloader", "required");
  train.label = root.String("train_dataloader_label", "train");
  train.global_train_batch_size = root.Int("global_train_batch_size", 0, {.min = 1});
  train.device_train_batch_size = root.Int("device_train_batch_size", 0, {.min = 1});
  train.train_subset_num_batches = root.Int("train_subset_num_batches", -1, {.min = -1});
  if (!loader.exists()) return;
  train.device_train_batch_size = loader.Int("batch_size", train.device_train_batch_size, {.min = 1});
  train.shuffle = loader.Bool("shuffle", true);
  train.drop_last = loader.Bool("drop_last", false);
  train.prefetch = ReadPrefetch(loader, job);
  train.predownload = loader.Int("predownload", 0, {.min = 0});
  train.make_order = ReadOrder(loader, job.plugins->tables());
  job.train_dataset = ReadData(loader, train.shuffle, job.plugins->tables());
  if (trains && train.global_train_batch_size == 0 && train.device_train_batch_size == 0) {
    root.Reject("global_train_batch_size",
                "required: the samples of one step over all ranks (or device_train_batch_size, those of one rank)");
  }
}

int64_t ReadMicrobatchSize(ConfigMap& map, absl::string_view key) {
  return map.Is(key, "auto") ? kAutoMicrobatch : map.Int(key, 0, {.min = 1, .max = kMaxSamples});
}

void ReadEvaluation(ConfigMap root, Job& job) {
  const Time interval = ReadTime(root, "eval_interval", "1ep");
  const int64_t subset = root.Int("eval_subset_num_batches", -1, {.min = -1});
  for (ConfigMap loader : root.MapList("eval_dataloader")) {
    Job::Evaluation evaluation;
    evaluation.options.label = loader.String("label", "eval");
    evaluation.options.batch_size = loader.Int("batch_size", evaluation.options.batch_size, {.min = 1});
    evaluation.options.subset_num_batches = loader.Int("subset_num_batches", subset, {.min = -1});
    evaluation.options.eval_interval =
        loader.Has("eval_interval") ? ReadTime(loader, "eval_interval", "1ep") : interval;
    evaluation.options.metric_names = loader.StringList("metric_names", {});
    evaluation.options.device_eval_microbatch_size = ReadMicrobatchSize(loader, "device_eval_microbatch_size");
    evaluation.options.prefetch = ReadPrefetch(loader, job);
    evaluation.dataset = ReadData(loader, /*shuffle=*/false, job.plugins->tables());
    job.evaluations.push_back(std::move(evaluation));
  }
  std::vector<IclEvaluation> tasks = ReadIclTasks(root);
  job.eval_gauntlet = ReadEvalGauntlet(root, tasks);
  for (IclEvaluation& task : tasks) {
    task.options.eval_interval = interval;
    job.evaluations.push_back({std::move(task.options), std::move(task.open), std::move(task.key)});
  }
}

void CheckSequenceIds(ConfigMap root, const PluginTables& plugins, const std::string& model_json) {
  ConfigMap model = root.Map("model");
  std::vector<ConfigMap> loaders = root.MapList("eval_dataloader");
  loaders.push_back(root.Map("train_dataloader"));
  for (ConfigMap& loader : loaders) {
    ConfigMap pack = loader.Map("pack");
    if (!model.exists() || !pack.exists() || !pack.Bool("attn_uses_sequence_id", false)) continue;
    if (SeesSequences(model, plugins, model_json)) return;
    pack.Reject("attn_uses_sequence_id",
                "needs a decoder whose attention can be kept within documents: gpt, or hf of the type gpt2, llama, "
                "mistral, mixtral, mpt, qwen2 or qwen3");
  }
}

}  // namespace composer
