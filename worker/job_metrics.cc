// SPDX-License-Identifier: Apache-2.0
#include "worker/job_metrics.h"

#include "trainer/metrics/accuracy.h"
#include "trainer/metrics/cross_entropy.h"
#include "worker/named_reader.h"

namespace composer {
namespace {

template <std::unique_ptr<Metric> (*kMake)()>
MetricFactory ReadPlain(ConfigMap config) {
  return kMake;
}

MetricFactory ReadMaskedAccuracy(ConfigMap config) {
  const int64_t ignore_index = config.Int("ignore_index", -100);
  return [=] { return MakeMaskedAccuracy(ignore_index); };
}

constexpr NamedReader<MetricFactory> kMetrics[] = {
    {"CrossEntropy", ReadPlain<MakeCrossEntropy>},
    {"LanguageCrossEntropy", ReadPlain<MakeLanguageCrossEntropy>},
    {"LanguagePerplexity", ReadPlain<MakeLanguagePerplexity>},
    {"MaskedAccuracy", ReadMaskedAccuracy},
    {"MulticlassAccuracy", ReadPlain<MakeMulticlassAccuracy>},
};

}  // namespace

std::vector<std::string> MetricNames() { return NamesOf(kMetrics); }

std::optional<std::vector<MetricFactory>> ReadMetrics(ConfigMap config, absl::string_view key,
                                                      const PluginTables& plugins) {
  if (!config.Has(key)) {
    config.Map(key);
    return std::nullopt;
  }
  return ReadNamedMaps<MetricFactory>(config, key, kMetrics, plugins.metrics);
}

}  // namespace composer
