// SPDX-License-Identifier: Apache-2.0
#include "worker/job_algorithms.h"

#include "worker/named_reader.h"

namespace composer {
namespace {

// A row each: {"label_smoothing", ReadLabelSmoothing}.
const std::vector<NamedReader<AlgorithmFactory>>& Algorithms() {
  static const auto& rows = *new std::vector<NamedReader<AlgorithmFactory>>{};
  return rows;
}

}  // namespace

std::vector<std::string> AlgorithmNames() { return NamesOf(Algorithms()); }

std::vector<AlgorithmFactory> ReadAlgorithms(ConfigMap root, const PluginTables& plugins) {
  return ReadNamedMaps<AlgorithmFactory>(root, "algorithms", Algorithms(), plugins.algorithms);
}

}  // namespace composer
