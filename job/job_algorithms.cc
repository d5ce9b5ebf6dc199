// SPDX-License-Identifier: Apache-2.0
#include "job/job_algorithms.h"

#include "job/named_reader.h"
#include "job/plugin/job_time.h"
#include "trainer/algorithms/ema.h"
#include "trainer/algorithms/optimisation/gradient_clipping.h"
#include "trainer/algorithms/optimisation/sam.h"
#include "trainer/algorithms/optimisation/selective_backprop.h"

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
  const double threshold = config.RequiredDouble("clipping_threshold", {.min = 0});
  if (threshold == 0) config.Reject("clipping_threshold", "must be above 0");
  const ClippingType read = type == "value"      ? ClippingType::kValue
                            : type == "adaptive" ? ClippingType::kAdaptive
                                                 : ClippingType::kNorm;
  return [=] { return std::make_unique<GradientClipping>(read, threshold); };
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
  options.start = config.Double("start", options.start);
  options.end = config.Double("end", options.end);
  options.keep = config.Double("keep", options.keep);
  options.scale_factor = config.Double("scale_factor", options.scale_factor);
  options.interrupt = config.Int("interrupt", options.interrupt);
  if (const absl::Status valid = Validate(options); !valid.ok()) config.Reject("", valid.message());
  return [=] { return std::make_unique<SelectiveBackprop>(options); };
}

// One row per algorithm.
const std::vector<NamedReader<AlgorithmFactory>>& Algorithms() {
  static const auto& rows = *new std::vector<NamedReader<AlgorithmFactory>>{
      {"ema", ReadEma},
      {"gradient_clipping", ReadGradientClipping},
      {"sam", ReadSam},
      {"selective_backprop", ReadSelectiveBackprop},
  };
  return rows;
}

}  // namespace

std::vector<std::string> AlgorithmNames() { return NamesOf(Algorithms()); }

std::vector<AlgorithmFactory> ReadAlgorithms(ConfigMap root, const PluginTables& plugins) {
  return ReadNamedMaps<AlgorithmFactory>(root, "algorithms", Algorithms(), plugins.algorithms);
}

}  // namespace composer
