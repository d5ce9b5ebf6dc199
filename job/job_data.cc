// SPDX-License-Identifier: Apache-2.0
#include "job/job_data.h"

#include "job/named_reader.h"
#include "trainer/data/fashion_mnist.h"
#include "trainer/data/synthetic.h"
#include "trainer/data/text_bytes.h"

namespace composer {
namespace {

DataSplit ReadSplit(ConfigMap& config) {
  return config.Choice("split", {"train", "test", "eval"}, "train") == "train" ? DataSplit::kTrain : DataSplit::kEval;
}

DatasetFactory ReadFashionMnist(ConfigMap config) {
  const std::string path = config.String("path", kFashionMnistFolder);
  const DataSplit split = ReadSplit(config);
  return [=] { return LoadFashionMnist(path, split); };
}

DatasetFactory ReadTextBytes(ConfigMap config) {
  TextBytesOptions options;
  options.paths = {config.String("path")};
  options.context = config.Int("max_seq_len", options.context, {.min = 1, .max = 1 << 20});
  options.eval_fraction = config.Double("eval_fraction", options.eval_fraction, {.min = 0, .max = 0.99});
  options.split = ReadSplit(config);
  return [=] { return LoadTextBytes(options); };
}

DatasetFactory ReadGaussianClassification(ConfigMap config) {
  GaussianClassificationOptions options;
  options.size = config.Int("size", options.size, {.min = 1});
  options.features = config.Int("features", options.features, {.min = 1});
  options.classes = config.Int("classes", options.classes, {.min = 1});
  options.separation = config.Double("separation", options.separation, {.min = 0});
  options.seed = static_cast<uint64_t>(config.Int("seed", 0, {.min = 0}));
  options.sample_seed = static_cast<uint64_t>(config.Int("sample_seed", 0, {.min = 0}));
  return [=] { return MakeGaussianClassification(options); };
}

constexpr NamedReader<DatasetFactory> kDatasets[] = {
    {"fashion_mnist", ReadFashionMnist},
    {"gaussian_classification", ReadGaussianClassification},
    {"text_bytes", ReadTextBytes},
};

}  // namespace

std::vector<std::string> DatasetNames() { return NamesOf(kDatasets); }

DatasetFactory ReadDataset(ConfigMap config, const PluginTables& plugins) {
  return ReadNamed<DatasetFactory>(config, kDatasets, plugins.datasets);
}

}  // namespace composer
