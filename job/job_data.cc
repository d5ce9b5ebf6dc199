// SPDX-License-Identifier: Apache-2.0
#include "job/job_data.h"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "base/status_macros.h"
#include "job/data/image_rows.h"
#include "job/job_streaming.h"
#include "job/job_transforms.h"
#include "job/named_reader.h"
#include "trainer/data/fashion_mnist.h"
#include "trainer/data/packed_source.h"
#include "trainer/data/prepared_dataset.h"
#include "trainer/data/sample_order.h"
#include "trainer/data/synthetic.h"
#include "trainer/data/text_bytes.h"
#include "trainer/data/text_sources.h"
#include "trainer/data/token_files.h"

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

DatasetFactory ReadTokens(ConfigMap config) {
  TokenFilesOptions options;
  options.paths = config.StringList("path", {});
  if (options.paths.empty()) config.Reject("path", "required");
  options.max_seq_len = config.Int("max_seq_len", options.max_seq_len, {.min = 1, .max = 1 << 24});
  const std::string type = config.Choice("dtype", {"uint8", "uint16", "int32", "uint32", "int64"}, "uint16");
  options.type = type == "uint8"    ? TokenType::kUint8
                 : type == "uint16" ? TokenType::kUint16
                 : type == "int32"  ? TokenType::kInt32
                 : type == "uint32" ? TokenType::kUint32
                                    : TokenType::kInt64;
  options.vocab_size = config.Int("vocab_size", 0, {.min = 0});
  return [=] { return OpenTokenFiles(options); };
}

constexpr NamedReader<DatasetFactory> kDatasets[] = {
    {"fashion_mnist", ReadFashionMnist},
    {"gaussian_classification", ReadGaussianClassification},
    {"text_bytes", ReadTextBytes},
    {"tokens", ReadTokens},
};

std::vector<std::string> ReadPaths(ConfigMap& config) {
  const std::vector<std::string> paths = config.StringList("path", {});
  if (paths.empty()) config.Reject("path", "required");
  return paths;
}

SourceFactory ReadJsonLines(ConfigMap config) {
  return [paths = ReadPaths(config)](const DataContext&) { return OpenJsonLines(paths); };
}

SourceFactory ReadCsv(ConfigMap config) {
  CsvOptions options;
  options.paths = ReadPaths(config);
  const std::string separator = config.String("separator", ",");
  if (separator.size() != 1) config.Reject("separator", "must be one character");
  options.separator = separator.empty() ? ',' : separator[0];
  options.features = config.StringList("features", {});
  options.target = config.String("target", "");
  return [options](const DataContext&) { return OpenCsv(options); };
}

SourceFactory ReadText(ConfigMap config) {
  const TextUnit unit = config.Choice("by", {"line", "file"}, "line") == "line" ? TextUnit::kLine : TextUnit::kFile;
  return [paths = ReadPaths(config), unit](const DataContext&) { return OpenTexts(paths, unit); };
}

const std::vector<NamedReader<SourceFactory>>& Sources() {
  static const auto& rows = *[] {
    auto* all = new std::vector<NamedReader<SourceFactory>>{
        {"csv", ReadCsv}, {"jsonl", ReadJsonLines}, {"streaming", ReadStreaming}, {"text", ReadText}};
    for (const SourceRow& row : ImageSourceRows()) all->push_back({row.name, row.read});
    return all;
  }();
  return rows;
}

struct PackSettings {
  int64_t max_seq_len = 0;
  bool separate = true;
};

std::optional<PackSettings> ReadPack(ConfigMap config) {
  ConfigMap pack = config.Map("pack");
  PackSettings settings;
  settings.max_seq_len = pack.Int("max_seq_len", 2048, {.min = 1, .max = 1 << 24});
  settings.separate = pack.Choice("separator", {"eos", "none"}, "eos") == "eos";
  return pack.exists() ? std::optional(settings) : std::nullopt;
}

// What is made of a source's samples.
struct Preparing {
  std::vector<TransformFactory> transforms;
  CollatorFactory collator;  // empty: the default
  std::optional<PackSettings> pack;
  bool shuffle = false;
};

absl::StatusOr<std::shared_ptr<const Dataset>> Prepare(std::shared_ptr<const SampleSource> source, const Preparing& how,
                                                       const DataContext& context) {
  Preparation preparation{.seed = context.seed};
  for (const TransformFactory& make : how.transforms) preparation.transforms.push_back(make(context));
  if (how.collator) preparation.collator = how.collator(context);
  if (!how.pack) return PrepareSamples(std::move(source), std::move(preparation));
  PackOptions pack{.max_seq_len = how.pack->max_seq_len, .shuffle = how.shuffle, .seed = context.seed};
  if (how.pack->separate) {
    pack.separator = context.tokenizer == nullptr ? std::nullopt : context.tokenizer->special_tokens().eos;
    if (!pack.separator)
      return absl::InvalidArgumentError(
          "pack.separator: eos, but the job's tokenizer has no end-of-sequence token (tokenizer: {name: bytes, eos: "
          "true} has one); give separator: none");
  }
  source = PackDocuments(std::move(source), std::exchange(preparation.transforms, {}), pack);
  return PrepareSamples(std::move(source), std::move(preparation));
}

bool IsSource(const std::string& name, const PluginTables& plugins) {
  return plugins.sources.count(name) > 0 ||
         std::any_of(Sources().begin(), Sources().end(), [&](const auto& row) { return name == row.name; });
}

OrderFactory ReadSequential(ConfigMap /*config*/) {
  return [](const OrderRequest& request) { return MakeSequentialOrder(request.size); };
}

OrderFactory ReadGlobal(ConfigMap config) {
  const int64_t seed = config.Int("seed", -1, {.min = -1});
  return [seed](const OrderRequest& request) {
    return MakeShuffledOrder(request.size, seed < 0 ? request.seed : static_cast<uint64_t>(seed));
  };
}

constexpr NamedReader<OrderFactory> kOrders[] = {{"global", ReadGlobal}, {"sequential", ReadSequential}};

}  // namespace

std::vector<std::string> DatasetNames() {
  std::vector<std::string> names = NamesOf(kDatasets);
  for (const auto& row : Sources()) names.emplace_back(row.name);
  return names;
}

std::vector<std::string> OrderNames() { return NamesOf(kOrders); }

DataOpener ReadData(ConfigMap config, bool shuffle, const PluginTables& plugins) {
  Preparing how{.transforms = ReadTransforms(config, plugins),
                .collator = ReadCollator(config, plugins),
                .pack = ReadPack(config),
                .shuffle = shuffle};
  if (config.Has("name") && IsSource(config.String("name", ""), plugins)) {
    const SourceFactory open = ReadNamed<SourceFactory>(config, Sources(), plugins.sources);
    return [=](const DataContext& context) -> absl::StatusOr<std::shared_ptr<const Dataset>> {
      ASSIGN_OR_RETURN(std::shared_ptr<const SampleSource> source, open(context));
      return Prepare(std::move(source), how, context);
    };
  }
  for (const char* key : {"transforms", "pack", "collate"}) {
    if (config.Has(key))
      config.Reject(key,
                    "is for data that comes sample by sample: jsonl, csv, text, image_folder, …, or a plugin's source");
  }
  const DatasetFactory make = ReadNamed<DatasetFactory>(config, kDatasets, plugins.datasets, NamesOf(Sources()));
  return [make](const DataContext&) { return make(); };
}

OrderFactory ReadOrder(ConfigMap config, const PluginTables& plugins) {
  ConfigMap order = config.Map("order");
  return order.exists() ? ReadNamed<OrderFactory>(order, kOrders, plugins.orders) : nullptr;
}

StoreOpener WithPluginStores(std::shared_ptr<const PluginRegistry> plugins, StoreOpener open) {
  if (plugins->tables().stores.empty()) return open;
  return [plugins = std::move(plugins), open = std::move(open)](const std::string& place) {
    const size_t scheme = place.find("://");
    const auto& stores = plugins->tables().stores;
    const auto store = scheme == std::string::npos ? stores.end() : stores.find(place.substr(0, scheme));
    return store == stores.end() ? OpenPlace(open, place) : store->second(place);
  };
}

}  // namespace composer
