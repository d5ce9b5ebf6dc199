// SPDX-License-Identifier: Apache-2.0
#include "job/plugin/plugin_registry.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "trainer/core/torch_status.h"

namespace composer {
namespace {

bool IsName(absl::string_view name) {
  if (name.empty() || name.size() > 100 || !absl::ascii_isalpha(static_cast<unsigned char>(name[0]))) return false;
  return std::all_of(name.begin(), name.end(), [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-' || c == '.';
  });
}

}  // namespace

PluginRegistry::PluginRegistry(Names built_in) : built_in_(std::move(built_in)) {}

std::string PluginRegistry::Problem(absl::string_view kind, absl::string_view name) const {
  if (!IsName(name)) return "a name is up to 100 letters, digits, `_`, `-` and `.`, and starts with a letter";
  const auto reserved = built_in_.find(kind);
  if (reserved == built_in_.end()) return "";
  const std::vector<std::string>& names = reserved->second;
  return std::find(names.begin(), names.end(), name) == names.end() ? "" : "that name is built in; choose another";
}

template <typename Factory>
void PluginRegistry::Add(absl::string_view kind, absl::string_view name, PluginReader<Factory> read,
                         PluginTable<Factory>& table) {
  ++added_;
  std::string problem = Problem(kind, name);
  const auto same = table.find(name);
  if (same != table.end()) {
    problem = same->second.plugin == plugin_ ? "registered twice"
                                             : absl::StrCat("already registered by plugin ", same->second.plugin);
  }
  // A data loader's `name` chooses among data sets and sources.
  if (kind == "dataset" && tables_.datasets.count(name) + tables_.sources.count(name) > 0) problem = "registered twice";
  if (!read) problem = "registered without a reader";
  if (problem.empty()) {
    table.emplace(std::string(name), PluginEntry<Factory>{plugin_, std::move(read)});
  } else {
    errors_.push_back(absl::StrCat(kind, " `", name, "`: ", problem));
  }
}

void PluginRegistry::AddModel(absl::string_view name, PluginReader<ModelFactory> read) {
  Add("model", name, std::move(read), tables_.models);
}
void PluginRegistry::AddDataset(absl::string_view name, PluginReader<DatasetFactory> read) {
  Add("dataset", name, std::move(read), tables_.datasets);
}
void PluginRegistry::AddOptimizer(absl::string_view name, PluginReader<OptimizerFactory> read) {
  Add("optimizer", name, std::move(read), tables_.optimizers);
}
void PluginRegistry::AddScheduler(absl::string_view name, PluginReader<SchedulerFactory> read) {
  Add("scheduler", name, std::move(read), tables_.schedulers);
}
void PluginRegistry::AddAlgorithm(absl::string_view name, PluginReader<AlgorithmFactory> read) {
  Add("algorithm", name, std::move(read), tables_.algorithms);
}
void PluginRegistry::AddCallback(absl::string_view name, PluginReader<PluginCallbackFactory> read) {
  Add("callback", name, std::move(read), tables_.callbacks);
}
void PluginRegistry::AddLogger(absl::string_view name, PluginReader<PluginLoggerFactory> read) {
  Add("logger", name, std::move(read), tables_.loggers);
}
void PluginRegistry::AddMetric(absl::string_view name, PluginReader<MetricFactory> read) {
  Add("metric", name, std::move(read), tables_.metrics);
}
void PluginRegistry::AddTokenizer(absl::string_view name, PluginReader<TokenizerFactory> read) {
  Add("tokenizer", name, std::move(read), tables_.tokenizers);
}

void PluginRegistry::AddSource(absl::string_view name, PluginReader<SourceFactory> read) {
  Add("dataset", name, std::move(read), tables_.sources);
}
void PluginRegistry::AddTransform(absl::string_view name, PluginReader<TransformFactory> read) {
  Add("transform", name, std::move(read), tables_.transforms);
}
void PluginRegistry::AddCollator(absl::string_view name, PluginReader<CollatorFactory> read) {
  Add("collator", name, std::move(read), tables_.collators);
}
void PluginRegistry::AddOrder(absl::string_view name, PluginReader<OrderFactory> read) {
  Add("order", name, std::move(read), tables_.orders);
}
void PluginRegistry::AddStore(absl::string_view scheme, StoreOpener open) {
  ++added_;
  const std::string problem = !open ? "registered without a function" : Problem("store", scheme);
  if (problem.empty() && tables_.stores.emplace(std::string(scheme), std::move(open)).second) return;
  errors_.push_back(absl::StrCat("store `", scheme, "`: ", problem.empty() ? "registered twice" : problem));
}
void PluginRegistry::AddLayerPolicy(LayerPolicy policy) {
  ++added_;
  std::string problem = Problem("layer policy", policy.name);
  for (const auto& [plugin, other] : tables_.layer_policies) {
    if (other.name == policy.name && other.algorithm == policy.algorithm)
      problem = absl::StrCat("already registered for ", policy.algorithm, " by plugin ", plugin);
  }
  if (policy.replace == nullptr || policy.made == nullptr) problem = "registered without a function";
  if (problem.empty()) {
    tables_.layer_policies.push_back({plugin_, std::move(policy)});
  } else {
    errors_.push_back(absl::StrCat("layer policy `", policy.name, "`: ", problem));
  }
}

absl::Status PluginRegistry::Fill(const std::string& plugin, const std::function<void(PluginRegistry&)>& fill) {
  plugin_ = plugin;
  errors_.clear();
  added_ = 0;
  const absl::Status filled = CatchTorch([&] { fill(*this); });
  if (!filled.ok()) errors_.push_back(absl::StrCat("its registration threw: ", filled.message()));
  if (filled.ok() && added_ == 0) errors_.push_back("it registers nothing");
  if (errors_.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("plugin ", plugin, ": ", absl::StrJoin(errors_, "; ")));
}

}  // namespace composer
