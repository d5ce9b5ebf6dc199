// SPDX-License-Identifier: Apache-2.0
#include "job/job_algorithms.h"

#include "job/named_reader.h"
#include "job/plugin/job_time.h"
#include "trainer/algorithms/ema.h"

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

// One row per algorithm.
const std::vector<NamedReader<AlgorithmFactory>>& Algorithms() {
  static const auto& rows = *new std::vector<NamedReader<AlgorithmFactory>>{{"ema", ReadEma}};
  return rows;
}

}  // namespace

std::vector<std::string> AlgorithmNames() { return NamesOf(Algorithms()); }

std::vector<AlgorithmFactory> ReadAlgorithms(ConfigMap root, const PluginTables& plugins) {
  return ReadNamedMaps<AlgorithmFactory>(root, "algorithms", Algorithms(), plugins.algorithms);
}

}  // namespace composer
