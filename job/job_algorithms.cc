// SPDX-License-Identifier: Apache-2.0
#include "job/job_algorithms.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "config/yaml.h"
#include "job/algorithms/algorithm_rows.h"
#include "job/algorithms/composer_quirks.h"
#include "job/config_values.h"
#include "job/named_reader.h"
#include "job/plugin/job_time.h"
#include "trainer/algorithms/ema.h"
#include "trainer/algorithms/optimisation/gradient_clipping.h"
#include "trainer/algorithms/optimisation/sam.h"
#include "trainer/algorithms/optimisation/selective_backprop.h"
#include "trainer/algorithms/schedule/layer_freezing.h"
#include "trainer/algorithms/swa.h"

namespace composer {
namespace {

AlgorithmFactory ReadEma(ConfigMap config) {
  EmaArguments arguments;
  if (config.Has("half_life")) arguments.half_life = ReadTime(config, "half_life", "");
  if (config.Has("smoothing")) arguments.smoothing = config.Double("smoothing", 0.5, {.min = 0, .max = 1});
  arguments.ema_start = ReadTime(config, "ema_start", "0.0dur");
  if (config.Has("update_interval")) arguments.update_interval = ReadTime(config, "update_interval", "");
  const absl::StatusOr<EmaOptions> options = ResolveEma(arguments);
  if (!options.ok()) {
    config.Reject("", options.status().message());
    return nullptr;
  }
  return [options = *options] { return std::make_unique<Ema>(options); };
}

AlgorithmFactory ReadGradientClipping(ConfigMap config) {
  const std::string type = config.Choice("clipping_type", {"norm", "value", "adaptive"}, "");
  if (type.empty()) config.Reject("clipping_type", "required: norm, value or adaptive");
  const double threshold = config.RequiredDouble("clipping_threshold", {.min = 0});
  if (threshold == 0) config.Reject("clipping_threshold", "must be above 0");
  const ClippingType read = type == "value"      ? ClippingType::kValue
                            : type == "adaptive" ? ClippingType::kAdaptive
                                                 : ClippingType::kNorm;
  return [=] { return std::make_unique<GradientClipping>(read, threshold); };
}

AlgorithmFactory ReadLayerFreezing(ConfigMap config) {
  LayerFreezingOptions options;
  options.freeze_start = config.Double("freeze_start", options.freeze_start, {.min = 0, .max = 0.999});
  options.freeze_level = config.Double("freeze_level", options.freeze_level, {.min = 0, .max = 1});
  return [=] { return std::make_unique<LayerFreezing>(options); };
}

AlgorithmFactory ReadSam(ConfigMap config) {
  SamOptions options;
  options.rho = config.Double("rho", options.rho, {.min = 0});
  options.epsilon = config.Double("epsilon", options.epsilon, {.min = 0});
  options.interval = config.Int("interval", options.interval, {.min = 1});
  if (options.rho == 0) config.Reject("rho", "must be above 0");
  return [=] { return std::make_unique<Sam>(options); };
}

AlgorithmFactory ReadSelectiveBackprop(ConfigMap config) {
  SelectiveBackpropOptions options;
  options.start = config.Double("start", options.start, {.min = 0, .max = 1});
  options.end = config.Double("end", options.end, {.min = 0, .max = 1});
  options.keep = config.Double("keep", options.keep, {.min = 0, .max = 1});
  options.scale_factor = config.Double("scale_factor", options.scale_factor, {.min = 0, .max = 1});
  options.interrupt = config.Int("interrupt", options.interrupt, {.min = 0});
  if (const absl::Status valid = Validate(options); !valid.ok()) config.Reject("", valid.message());
  return [=] { return std::make_unique<SelectiveBackprop>(options); };
}

AlgorithmFactory ReadSwa(ConfigMap config) {
  SwaOptions options;
  options.swa_start = ReadTime(config, "swa_start", options.swa_start.ToString());
  options.swa_end = ReadTime(config, "swa_end", options.swa_end.ToString());
  options.update_interval = ReadTime(config, "update_interval", options.update_interval.ToString());
  options.schedule_swa_lr = config.Bool("schedule_swa_lr", options.schedule_swa_lr);
  options.anneal_cosine = config.Choice("anneal_strategy", {"linear", "lin", "cos", "cosine"}, "linear")[0] == 'c';
  options.anneal_steps = config.Int("anneal_steps", options.anneal_steps, {.min = 1});
  if (config.Has("swa_lr")) options.swa_lr = config.Double("swa_lr", 0, {.min = 0});
  if (const absl::Status valid = Validate(options); !valid.ok()) config.Reject("", valid.message());
  return [=] { return std::make_unique<Swa>(options); };
}

// One row per algorithm.
const std::vector<NamedReader<AlgorithmFactory>>& Algorithms() {
  static const auto& rows = *[] {
    auto* all = new std::vector<NamedReader<AlgorithmFactory>>{
        {"ema", ReadEma}, {"gradient_clipping", ReadGradientClipping},   {"layer_freezing", ReadLayerFreezing},
        {"sam", ReadSam}, {"selective_backprop", ReadSelectiveBackprop}, {"swa", ReadSwa},
    };
    for (const auto& table : {BatchAlgorithmRows(), StepAlgorithmRows(), SurgeryRows()}) {
      for (const AlgorithmRow& row : table) all->push_back({row.name, row.read});
    }
    return all;
  }();
  return rows;
}

bool IsKnown(const std::string& key, const PluginTables& plugins) {
  const auto& built_in = Algorithms();
  return plugins.algorithms.contains(key) ||
         std::any_of(built_in.begin(), built_in.end(), [&](const auto& row) { return key == row.name; });
}

// Returns what is written under `algorithms`, in order.
std::vector<AlgorithmOrigin> OriginsOf(const ConfigNode& document, const PluginTables& plugins) {
  std::vector<AlgorithmOrigin> origins;
  const auto add = [&](const std::string& key, const ConfigNode* arguments) {
    const auto plugin = plugins.algorithms.find(key);
    origins.push_back({key, ConfigJson(arguments), plugin == plugins.algorithms.end() ? "" : plugin->second.plugin});
  };
  const auto add_map = [&](const ConfigNode& map) {
    for (const ConfigNode& child : map.children) add(child.key, &child);
  };
  const ConfigNode* written = document.Find("algorithms");
  if (written == nullptr) return origins;
  if (!written->is_list()) add_map(*written);
  if (written->is_list()) {
    for (const ConfigNode& item : written->children) item.is_scalar() ? add(item.scalar, nullptr) : add_map(item);
  }
  return origins;
}

}  // namespace

std::vector<std::string> AlgorithmNames() { return NamesOf(Algorithms()); }

std::vector<AlgorithmFactory> ReadAlgorithms(ConfigMap root, const ConfigNode& document, const PluginTables& plugins,
                                             bool composer_compat) {
  std::vector<AlgorithmFactory> factories =
      ReadNamedMaps<AlgorithmFactory>(root, "algorithms", Algorithms(), plugins.algorithms);
  const std::vector<AlgorithmOrigin> origins = OriginsOf(document, plugins);
  if (factories.size() != origins.size()) return factories;  // one has an error, which the reader has
  for (size_t i = 0; i < factories.size(); ++i) {
    factories[i] = [make = std::move(factories[i]), origin = origins[i], composer_compat] {
      std::unique_ptr<Algorithm> algorithm = make();
      if (composer_compat) UseComposersQuirks(*algorithm);
      algorithm->SetOrigin(origin);
      return algorithm;
    };
  }
  return factories;
}

std::vector<LayerPolicy> ReadLayerPolicies(ConfigMap root, const PluginTables& plugins) {
  std::vector<LayerPolicy> policies;
  for (const auto& [plugin, policy] : plugins.layer_policies) {
    if (!IsKnown(policy.algorithm, plugins)) {
      root.Reject("plugins", absl::StrCat("plugin ", plugin, ": layer policy `", policy.name, "`: algorithm ",
                                          UnknownNameOf(policy.algorithm, AlgorithmNames(), plugins.algorithms)));
    }
    policies.push_back(policy);
  }
  return policies;
}

absl::StatusOr<std::unique_ptr<Algorithm>> MakeAlgorithm(const AlgorithmOrigin& origin, const PluginTables& plugins,
                                                         bool composer_compat) {
  if (!IsKnown(origin.key, plugins))
    return absl::InvalidArgumentError(UnknownNameOf(origin.key, AlgorithmNames(), plugins.algorithms));
  ASSIGN_OR_RETURN(const ConfigNode document,
                   ParseYaml(absl::StrCat("algorithms: {", origin.key, ": ", origin.arguments, "}"), "checkpoint"));
  ConfigReader reader(document);
  const std::vector<AlgorithmFactory> factories = ReadAlgorithms(reader.root(), document, plugins, composer_compat);
  RETURN_IF_ERROR(reader.Finish());
  return factories.at(0)();
}

}  // namespace composer
