// What plugins add to the names that a job's YAML may use. There is one registry per job: made by the worker, filled by
// the plugins, read by job_*.cc.
//
// A name stands for a reader: it takes the keys beside the name and returns the factory that builds the thing later. A
// reader must not build or open anything itself: it also runs for `composer validate`. Factories may throw what
// LibTorch throws; the Status of a StatusOr is passed on.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "job/plugin/plugin_config.h"
#include "storage/object_store.h"
#include "trainer/core/callback.h"
#include "trainer/core/dataset.h"
#include "trainer/core/logger.h"
#include "trainer/core/metric.h"
#include "trainer/core/model.h"
#include "trainer/core/optimizer.h"
#include "trainer/core/scheduler.h"
#include "trainer/core/tokenizer.h"
#include "trainer/layers/layer_policy.h"

namespace composer {

// Where the run writes. run_folder exists when a logger is made.
struct RunPlace {
  std::string run_name;
  std::string run_folder;  // absolute
};

// What the parts of data are handed.
struct DataContext {
  std::shared_ptr<const Tokenizer> tokenizer;  // null: the job has none
  StoreOpener open_store;                      // for places that are URLs
  uint64_t seed = 0;                           // the job's
  int rank = 0, world_size = 1;
  int local_rank = 0, local_world_size = 1;  // on this node
};

using ModelFactory = std::function<std::shared_ptr<Model>()>;
using DatasetFactory = std::function<absl::StatusOr<std::shared_ptr<const Dataset>>()>;
using SchedulerFactory = std::function<std::unique_ptr<Scheduler>()>;
using AlgorithmFactory = std::function<std::unique_ptr<Algorithm>()>;
using PluginCallbackFactory = std::function<std::unique_ptr<Callback>()>;
using PluginLoggerFactory =
    std::function<absl::StatusOr<std::unique_ptr<LoggerDestination>>(const RunPlace&)>;  // only on rank 0
using MetricFactory = std::function<std::unique_ptr<Metric>()>;
using TokenizerFactory = std::function<std::shared_ptr<const Tokenizer>()>;
using SourceFactory = std::function<absl::StatusOr<std::shared_ptr<const SampleSource>>(const DataContext&)>;
using TransformFactory = std::function<std::shared_ptr<const SampleTransform>(const DataContext&)>;
using CollatorFactory = std::function<std::shared_ptr<const Collator>(const DataContext&)>;

template <typename Factory>
using PluginReader = std::function<Factory(PluginConfig& config)>;

template <typename Factory>
struct PluginEntry {
  std::string plugin;  // the file, for messages
  PluginReader<Factory> read;
};
template <typename Factory>
using PluginTable = std::map<std::string, PluginEntry<Factory>, std::less<>>;

struct PluginLayerPolicy {
  std::string plugin;  // the file, for messages
  LayerPolicy policy;
};

struct PluginTables {
  PluginTable<ModelFactory> models;
  PluginTable<DatasetFactory> datasets;
  PluginTable<OptimizerFactory> optimizers;
  PluginTable<SchedulerFactory> schedulers;
  PluginTable<AlgorithmFactory> algorithms;
  PluginTable<PluginCallbackFactory> callbacks;
  PluginTable<PluginLoggerFactory> loggers;
  PluginTable<MetricFactory> metrics;
  PluginTable<TokenizerFactory> tokenizers;
  PluginTable<SourceFactory> sources;
  PluginTable<TransformFactory> transforms;
  PluginTable<CollatorFactory> collators;
  PluginTable<OrderFactory> orders;
  std::map<std::string, StoreOpener, std::less<>> stores;  // by scheme
  std::vector<PluginLayerPolicy> layer_policies;
};

// Not thread-safe.
class PluginRegistry {
 public:
  // Names that plugins may not take: {"model", {"mlp", …}}, {"dataset", …}, "optimizer", "scheduler", "algorithm",
  // "callback", "logger", "metric", "tokenizer", "source", "transform", "collator", "order", "store".
  using Names = std::map<std::string, std::vector<std::string>, std::less<>>;
  explicit PluginRegistry(Names built_in = {});
  PluginRegistry(const PluginRegistry&) = delete;
  PluginRegistry& operator=(const PluginRegistry&) = delete;

  // Called by plugins. A name consists of letters, digits, `_`, `-` and `.`, and starts with a letter; it must differ
  // from the built-in ones and from those of all plugins. A bad one is recorded, and the job ends with an error that
  // names it and the plugin.
  void AddModel(absl::string_view name, PluginReader<ModelFactory> read);
  void AddDataset(absl::string_view name, PluginReader<DatasetFactory> read);
  void AddOptimizer(absl::string_view name, PluginReader<OptimizerFactory> read);
  void AddScheduler(absl::string_view name, PluginReader<SchedulerFactory> read);
  void AddAlgorithm(absl::string_view name, PluginReader<AlgorithmFactory> read);
  void AddCallback(absl::string_view name, PluginReader<PluginCallbackFactory> read);
  void AddLogger(absl::string_view name, PluginReader<PluginLoggerFactory> read);
  void AddMetric(absl::string_view name, PluginReader<MetricFactory> read);
  void AddTokenizer(absl::string_view name, PluginReader<TokenizerFactory> read);
  // Samples one by one, chosen by `name` of a data loader as data sets are; the job's transforms and collator make
  // batches of them.
  void AddSource(absl::string_view name, PluginReader<SourceFactory> read);
  void AddTransform(absl::string_view name, PluginReader<TransformFactory> read);
  void AddCollator(absl::string_view name, PluginReader<CollatorFactory> read);
  void AddOrder(absl::string_view name, PluginReader<OrderFactory> read);
  // Opens places that begin with `scheme://`.
  void AddStore(absl::string_view scheme, StoreOpener open);
  // What takes the place of layers of the plugin's own class in the surgery of an algorithm, which may be of any
  // plugin. The policy's name must differ from others for the same algorithm.
  void AddLayerPolicy(LayerPolicy policy);

  // Called by the host. What is added inside `fill` belongs to this plugin. kInvalidArgument with a line for each bad
  // name, or when fill throws or adds nothing.
  absl::Status Fill(const std::string& plugin, const std::function<void(PluginRegistry&)>& fill);
  const PluginTables& tables() const { return tables_; }

 private:
  template <typename Factory>
  void Add(absl::string_view kind, absl::string_view name, PluginReader<Factory> read, PluginTable<Factory>& table);
  std::string Problem(absl::string_view kind, absl::string_view name) const;

  Names built_in_;
  PluginTables tables_;
  std::string plugin_;  // the plugin being filled in
  std::vector<std::string> errors_;
  int added_ = 0;
};

}  // namespace composer
