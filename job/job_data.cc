// SPDX-License-Identifier: Apache-2.0
#include "job/job_data.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/status_macros.h"
#include "job/data/image_rows.h"
#include "job/data/table_rows.h"
#include "job/job_streaming.h"
#include "job/job_transforms.h"
#include "job/named_reader.h"
#include "trainer/data/collators.h"
#include "trainer/data/fashion_mnist.h"
#include "trainer/data/first_fit_source.h"
#include "trainer/data/length_buckets.h"
#include "trainer/data/mix_source.h"
#include "trainer/data/packed_source.h"
#include "trainer/data/prepared_dataset.h"
#include "trainer/data/sample_order.h"
#include "trainer/data/synthetic.h"
#include "trainer/data/tensor_files.h"
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

SourceFactory ReadTensors(ConfigMap config) {
  return [paths = ReadPaths(config)](const DataContext&) { return OpenTensorFiles(paths); };
}

SourceFactory ReadText(ConfigMap config) {
  const TextUnit unit = config.Choice("by", {"line", "file"}, "line") == "line" ? TextUnit::kLine : TextUnit::kFile;
  return [paths = ReadPaths(config), unit](const DataContext&) { return OpenTexts(paths, unit); };
}

const std::vector<NamedReader<SourceFactory>>& Sources() {
  static const auto& rows = *[] {
    auto* all = new std::vector<NamedReader<SourceFactory>>{{"csv", ReadCsv},
                                                            {"jsonl", ReadJsonLines},
                                                            {"streaming", ReadStreaming},
                                                            {"tensors", ReadTensors},
                                                            {"text", ReadText}};
    for (const SourceRow& row : ImageSourceRows()) all->push_back({row.name, row.read});
    for (const SourceRow& row : TableSourceRows()) all->push_back({row.name, row.read});
    return all;
  }();
  return rows;
}

constexpr char kMix[] = "mix";  // of other sources

struct MixedFactory {
  SourceFactory open;
  double weight = 1;
  std::vector<TransformFactory> transforms;
};

SourceFactory ReadMix(ConfigMap config, const PluginTables& plugins) {
  std::vector<MixedFactory> parts;
  for (ConfigMap item : config.MapList("mix")) {
    MixedFactory& part = parts.emplace_back();
    part.weight = item.Double("weight", 1, {.min = 0});
    if (!(part.weight > 0)) item.Reject("weight", "must be above 0");
    ConfigMap source = item.Map("source");
    if (!source.exists()) item.Reject("source", "required: a data set by name, such as {name: jsonl, path: a.jsonl}");
    if (!source.exists()) continue;
    part.transforms = ReadTransforms(source, plugins);
    part.open = ReadNamed<SourceFactory>(source, Sources(), plugins.sources);
  }
  if (parts.empty()) config.Reject("mix", "required: a list of {weight, source}");
  MixOptions options;
  if (config.Has("epoch_size")) options.epoch_size = config.RequiredInt("epoch_size", {.min = 1});
  for (ConfigMap change : config.MapList("changes")) {
    const int64_t at = change.RequiredInt("at", {.min = 1});
    const std::vector<double> weights = change.DoubleList("weights", {});
    if (weights.size() != parts.size()) change.Reject("weights", "needs a number for each source of the mix");
    options.changes.push_back({at, weights});
  }
  return [=](const DataContext& context) -> absl::StatusOr<std::shared_ptr<const SampleSource>> {
    std::vector<MixedSource> sources;
    for (const MixedFactory& part : parts) {
      MixedSource& mixed = sources.emplace_back();
      ASSIGN_OR_RETURN(mixed.source, part.open(context));
      mixed.weight = part.weight;
      for (const TransformFactory& make : part.transforms) mixed.transforms.push_back(make(context));
    }
    MixOptions mix = options;
    mix.seed = context.seed;
    return MixSources(std::move(sources), mix);
  };
}

struct PackSettings {
  int64_t max_seq_len = 0;
  bool separate = true, first_fit = false, sequence_ids = false;
};

std::optional<PackSettings> ReadPack(ConfigMap config) {
  ConfigMap pack = config.Map("pack");
  PackSettings settings;
  settings.max_seq_len = pack.Int("max_seq_len", 2048, {.min = 1, .max = 1 << 24});
  settings.separate = pack.Choice("separator", {"eos", "none"}, "eos") == "eos";
  settings.first_fit = pack.Choice("method", {"concat", "first_fit"}, "concat") == "first_fit";
  settings.sequence_ids = pack.Bool("attn_uses_sequence_id", false);
  return pack.exists() ? std::optional(settings) : std::nullopt;
}

std::optional<LengthBucketOptions> ReadLengthBuckets(ConfigMap config) {
  ConfigMap buckets = config.Map("length_buckets");
  LengthBucketOptions options;
  options.window = buckets.Int("window", options.window, {.min = 1, .max = 1 << 24});
  options.size = buckets.Int("size", options.size, {.min = 1, .max = 1 << 24});
  if (!buckets.exists()) return std::nullopt;
  if (config.Has("pack")) config.Reject("length_buckets", "packed rows have one length; give pack or length_buckets");
  return options;
}

// What is made of a source's samples.
struct Preparing {
  std::vector<TransformFactory> transforms;
  CollatorFactory collator;  // empty: the default
  std::optional<PackSettings> pack;
  std::optional<LengthBucketOptions> buckets;
  bool shuffle = false;
};

absl::StatusOr<std::shared_ptr<const Dataset>> Prepare(std::shared_ptr<const SampleSource> source, const Preparing& how,
                                                       const DataContext& context) {
  Preparation preparation{.seed = context.seed};
  for (const TransformFactory& make : how.transforms) preparation.transforms.push_back(make(context));
  if (how.collator) preparation.collator = how.collator(context);
  if (how.buckets) source = WithLengthBuckets(std::move(source), *how.buckets);
  if (!how.pack) return PrepareSamples(std::move(source), std::move(preparation));
  PackOptions pack{.max_seq_len = how.pack->max_seq_len, .shuffle = how.shuffle, .seed = context.seed};
  pack.sequence_ids = how.pack->sequence_ids;
  if (how.pack->separate) {
    pack.separator = context.tokenizer == nullptr ? std::nullopt : context.tokenizer->special_tokens().eos;
    if (!pack.separator)
      return absl::InvalidArgumentError(
          "pack.separator: eos, but the job's tokenizer has no end-of-sequence token (tokenizer: {name: bytes, eos: "
          "true} has one); give separator: none");
  }
  std::vector<std::shared_ptr<const SampleTransform>> transforms = std::exchange(preparation.transforms, {});
  if (how.pack->first_fit) {
    const auto pad = context.tokenizer == nullptr ? std::nullopt : context.tokenizer->special_tokens().pad;
    source = PackFirstFit(std::move(source), std::move(transforms), {.pack = pack, .pad_id = pad.value_or(0)});
  } else {
    source = PackDocuments(std::move(source), std::move(transforms), pack);
  }
  return PrepareSamples(std::move(source), std::move(preparation));
}

// What `finetuning` has by default, since its samples have many lengths.
std::shared_ptr<const Collator> PadWithTokenizer(const DataContext& context) {
  const auto pad = context.tokenizer == nullptr ? std::nullopt : context.tokenizer->special_tokens().pad;
  return std::make_shared<const PadCollator>(PadOptions{.pad_id = pad.value_or(0)});
}

bool IsSource(const std::string& name, const PluginTables& plugins) {
  return name == kMix || plugins.sources.count(name) > 0 ||
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
  names.emplace_back(kMix);
  return names;
}

std::vector<std::string> OrderNames() { return NamesOf(kOrders); }

DataOpener ReadData(ConfigMap config, bool shuffle, const PluginTables& plugins) {
  Preparing how{.transforms = ReadTransforms(config, plugins),
                .collator = ReadCollator(config, plugins),
                .pack = ReadPack(config),
                .buckets = ReadLengthBuckets(config),
                .shuffle = shuffle};
  const std::string name = config.Has("name") ? config.String("name", "") : "";
  if (IsSource(name, plugins)) {
    if (name == "finetuning" && !how.collator && !how.pack) how.collator = PadWithTokenizer;
    const SourceFactory open =
        name == kMix ? ReadMix(config, plugins) : ReadNamed<SourceFactory>(config, Sources(), plugins.sources);
    return [=](const DataContext& context) -> absl::StatusOr<std::shared_ptr<const Dataset>> {
      ASSIGN_OR_RETURN(std::shared_ptr<const SampleSource> source, open(context));
      return Prepare(std::move(source), how, context);
    };
  }
  for (const char* key : {"transforms", "pack", "length_buckets", "collate"}) {
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
