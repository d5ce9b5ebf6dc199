// SPDX-License-Identifier: Apache-2.0
#include "job/job_model.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/format/json.h"
#include "job/job_metrics.h"
#include "job/models/diffusion_rows.h"
#include "job/models/vision_rows.h"
#include "job/named_reader.h"
#include "trainer/loss/classifier_loss.h"
#include "trainer/models/classifier.h"
#include "trainer/models/gpt.h"
#include "trainer/models/gpt_tensor_parallel.h"
#include "trainer/models/hf/hf_model.h"
#include "trainer/models/language_model.h"
#include "trainer/models/mlp.h"
#include "trainer/models/resnet_small.h"
#include "trainer/models/torchscript.h"

namespace composer {
namespace {

constexpr IntRange kSize = {.min = 1, .max = 1 << 24};

ModelFactory ReadMlp(ConfigMap config) {
  const std::vector<int64_t> sizes = config.IntList("sizes", {64, 64, 64, 10}, kSize);
  return [=] { return MakeMlp(sizes); };
}

ModelFactory ReadResNetSmall(ConfigMap config) {
  ResNetSmallOptions options;
  options.channels = config.Int("in_channels", options.channels, kSize);
  options.classes = config.Int("num_classes", options.classes, kSize);
  options.widths = config.IntList("widths", options.widths, kSize);
  options.blocks = config.Int("blocks", options.blocks, kSize);
  options.stem_stride = config.Int("stem_stride", options.stem_stride, {.min = 1, .max = 4});
  options.image_size = config.Int("image_size", options.image_size, kSize);
  return [=] { return MakeResNetSmall(options); };
}

// Names are those of llm-foundry's mpt_causal_lm.
GptOptions ReadGptOptions(ConfigMap& config) {
  GptOptions options;
  options.layers = config.Int("n_layers", options.layers, kSize);
  options.heads = config.Int("n_heads", options.heads, kSize);
  options.width = config.Int("d_model", options.width, kSize);
  options.context = config.Int("max_seq_len", options.context, kSize);
  options.vocab = config.Int("vocab_size", options.vocab, kSize);
  options.tied_head = config.Bool("tie_word_embeddings", options.tied_head);
  options.dropout = config.Double("dropout", options.dropout, {.min = 0, .max = 0.99});
  return options;
}

// Of decoders. 0: whole logits.
int64_t ReadLossChunk(ConfigMap& config) { return config.Int("loss_chunk_tokens", 0, {.min = 0, .max = kSize.max}); }

std::shared_ptr<Model> WithLossChunk(std::shared_ptr<Model> model, int64_t tokens) {
  if (tokens == 0) return model;
  auto* const decoder = dynamic_cast<LanguageModel*>(model.get());
  TORCH_CHECK_VALUE(decoder != nullptr,
                    "model.loss_chunk_tokens: is for decoders, which are trained on the next token");
  decoder->SetLossChunk(tokens);
  return model;
}

ModelFactory ReadGpt(ConfigMap config) {
  return [options = ReadGptOptions(config), chunk = ReadLossChunk(config)] {
    return WithLossChunk(MakeGpt(options), chunk);
  };
}

ModelSplitter ReadGptSplitter(ConfigMap config) {
  return [options = ReadGptOptions(config)](const Model& whole, Communicator& group) {
    return MakeTensorParallelGpt(options, whole, group);
  };
}

// Names are in the order of their enumerators.
constexpr absl::string_view kTasks[] = {"classifier", "language_model", "custom"};
constexpr absl::string_view kLosses[] = {"default",  "module",  "cross_entropy", "binary_cross_entropy_with_logits",
                                         "mse_loss", "l1_loss", "nll_loss"};
constexpr char kTorchScript[] = "torchscript";

template <typename Enum, size_t kSize>
Enum ReadEnum(ConfigMap& config, absl::string_view key, const absl::string_view (&names)[kSize], Enum fallback) {
  const std::string name = config.Choice(key, names, names[static_cast<size_t>(fallback)]);
  return static_cast<Enum>(std::find(std::begin(names), std::end(names), name) - std::begin(names));
}

ModelFactory ReadTorchScript(ConfigMap config, const PluginTables& plugins) {
  TorchScriptOptions options;
  options.path = config.String("path");
  options.task = ReadEnum(config, "task", kTasks, options.task);
  options.loss = ReadEnum(config, "loss", kLosses, options.loss);
  options.num_classes = config.Int("num_classes", options.num_classes, kSize);
  options.train_metrics = ReadMetrics(config, "train_metrics", plugins);
  options.eval_metrics = ReadMetrics(config, "eval_metrics", plugins);
  return [=] { return LoadTorchScript(options); };
}

// Returns the map `config` as JSON; "" if it is not given.
std::string InnerConfig(const std::string& json) {
  const auto model = ParseOrderedJson(json);
  const auto inner = model.is_object() ? model.find("config") : model.end();
  return model.is_object() && inner != model.end() && inner->is_object() ? inner->dump() : "";
}

HfModelOptions ReadPlace(ConfigMap& config, const std::string& json) {
  HfModelOptions options;
  options.path = config.String("path", "");
  config.Map("config").IgnoreRest();
  options.config = InnerConfig(json);
  return options;
}

void ReadEmbedding(ConfigMap& config, bool embeds, EmbeddingOptions& options) {
  for (const char* key : {"pooling", "normalize", "temperature", "gather_in_batch_negatives"}) {
    if (config.Has(key) && !embeds) config.Reject(key, "is for task: embedding");
  }
  constexpr absl::string_view kPoolings[] = {"mean", "cls", "last"};
  options.pooling = ReadEnum(config, "pooling", kPoolings, options.pooling);
  options.normalize = config.Bool("normalize", options.normalize);
  options.temperature = config.Double("temperature", options.temperature, {.min = 1e-6, .max = 1e6});
  options.gather_in_batch_negatives = config.Bool("gather_in_batch_negatives", options.gather_in_batch_negatives);
}

void ReadTask(ConfigMap& config, const PluginTables& plugins, HfTaskOptions& options) {
  const std::string task = config.Choice(
      "task", {"auto", "masked_lm", "sequence_classification", "token_classification", "features", "embedding"},
      "auto");
  options.has_task = task != "auto";
  options.loss.task = task == "masked_lm"              ? TextTask::kMaskedLm
                      : task == "token_classification" ? TextTask::kTokenClassification
                      : task == "features"             ? TextTask::kFeatures
                      : task == "embedding"            ? TextTask::kEmbedding
                                                       : TextTask::kSequenceClassification;
  const std::string problem = config.Choice(
      "problem_type", {"auto", "single_label_classification", "multi_label_classification", "regression"}, "auto");
  options.has_problem = problem != "auto";
  options.loss.problem = problem == "regression"                   ? ProblemType::kRegression
                         : problem == "multi_label_classification" ? ProblemType::kMultiLabel
                                                                   : ProblemType::kSingleLabel;
  options.num_labels = config.Int("num_labels", 0, {.min = 0, .max = kSize.max});
  options.max_seq_len = config.Int("max_seq_len", 0, {.min = 0, .max = kSize.max});
  if (config.Has("dropout")) options.dropout = config.RequiredDouble("dropout", {.min = 0, .max = 0.99});
  options.loss.label_smoothing = config.Double("label_smoothing", 0, {.min = 0, .max = 0.99});
  options.loss.class_weights = config.DoubleList("class_weights", {}, {.min = 0});
  options.loss.train_metrics = ReadMetrics(config, "train_metrics", plugins);
  options.loss.eval_metrics = ReadMetrics(config, "eval_metrics", plugins);
  options.embedding.eval_metrics = options.loss.eval_metrics;
  ReadEmbedding(config, task == "embedding", options.embedding);
}

// Returns a function that counts the tokenizer's tokens, once.
std::function<int64_t()> TokensOf(const TokenizerFactory& tokenizer) {
  return [tokenizer, count = std::make_shared<std::optional<int64_t>>()] {
    if (!count->has_value()) *count = tokenizer()->vocab_size();
    return **count;
  };
}

ModelFactory ReadHfModel(ConfigMap config, const PluginTables& plugins, const std::string& json,
                         const TokenizerFactory& tokenizer) {
  HfModelOptions options = ReadPlace(config, json);
  options.pretrained = config.Bool("pretrained", true);
  ReadTask(config, plugins, options.task);
  if (options.path.empty() && options.config.empty())
    config.Reject("path", "required, or `config` with the fields of a config.json");
  const bool resizes = config.Bool("allow_embedding_resizing", false);
  if (resizes && tokenizer == nullptr)
    config.Reject("allow_embedding_resizing", "needs the job's `tokenizer`, whose tokens get rows");
  const std::function<int64_t()> tokens =
      resizes ? TokensOf(tokenizer) : std::function<int64_t()>([] { return int64_t{0}; });
  return [=, chunk = ReadLossChunk(config)] {
    HfModelOptions own = options;
    own.min_vocab = tokens();
    return WithLossChunk(LoadHfModel(own), chunk);
  };
}

std::vector<NamedReader<ModelFactory>> ModelReaders() {
  std::vector<NamedReader<ModelFactory>> rows = {{"gpt", ReadGpt}, {"mlp", ReadMlp}, {"resnet_small", ReadResNetSmall}};
  for (const ModelRow& row : VisionModelRows()) rows.push_back({row.name, row.read});
  for (const ModelRow& row : DiffusionModelRows()) rows.push_back({row.name, row.read});
  return rows;
}

// Models whose loss and metrics can be chosen.
constexpr absl::string_view kClassifiers[] = {"efficientnet", "mlp", "resnet", "resnet_cifar", "resnet_small"};

ModelFactory WithTask(ModelFactory make, ConfigMap config, const PluginTables& plugins) {
  ClassifierTask task;
  const std::vector<std::string> names = ClassifierLossNames();
  const std::vector<absl::string_view> allowed(names.begin(), names.end());
  const std::string loss = config.Choice("loss_name", allowed, "soft_cross_entropy");
  const ClassifierLossOptions options = {
      .class_weights = config.DoubleList("class_weights", {}, {.min = 0}),
      .label_smoothing = config.Double("label_smoothing", 0, {.min = 0, .max = 1}),
      .sum = config.Choice("loss_reduction", {"mean", "sum"}, "mean") == "sum",
  };
  const absl::StatusOr<ClassifierLoss> found = ClassifierLossByName(loss, options);
  if (found.ok()) {
    task.loss = *found;
  } else {
    config.Reject("loss_name", found.status().message());
  }
  task.train_metrics = ReadMetrics(config, "train_metrics", plugins);
  task.eval_metrics = ReadMetrics(config, "eval_metrics", plugins);
  return [make = std::move(make), task = std::move(task)] {
    std::shared_ptr<Model> model = make();
    dynamic_cast<Classifier&>(*model).SetTask(task);
    return model;
  };
}

constexpr NamedReader<ModelSplitter> kSplitters[] = {
    {"gpt", ReadGptSplitter},
};

}  // namespace

LayerPlan ReadHfLayerPlan(ConfigMap config, const std::string& json) {
  const absl::StatusOr<std::string> type = ReadHfModelType(ReadPlace(config, json));
  absl::StatusOr<LayerPlan> plan = type.ok() ? HfLayerPlan(*type) : type.status();
  if (plan.ok()) return *plan;
  config.Reject("", plan.status().message());
  return {};
}

ModelSplitter ReadModelSplitter(ConfigMap config) {
  const std::string name = config.String("name");
  for (const NamedReader<ModelSplitter>& row : kSplitters) {
    if (name == row.name) return row.read(config);
  }
  config.Reject("name", absl::StrCat("`", name, "` cannot be split over ranks: parallelism_config.tp needs one of ",
                                     absl::StrJoin(NamesOf(kSplitters), ", "), ", or a layer_plan"));
  return nullptr;
}

bool SeesSequences(ConfigMap config, const PluginTables& plugins, const std::string& json) {
  constexpr absl::string_view kDecoders[] = {"gpt2", "llama", "mistral", "mixtral", "mpt", "qwen2", "qwen3"};
  const std::string name = config.Has("name") ? config.String("name") : "";
  if (name != kHfModel) return name == "gpt" || plugins.models.count(name) > 0;
  const absl::StatusOr<std::string> type = ReadHfModelType(ReadPlace(config, json));
  return type.ok() && std::find(std::begin(kDecoders), std::end(kDecoders), *type) != std::end(kDecoders);
}

std::vector<std::string> ModelNames() {
  std::vector<std::string> names = NamesOf(ModelReaders());
  names.emplace_back(kTorchScript);
  names.emplace_back(kHfModel);
  return names;
}

ModelFactory ReadModel(ConfigMap config, const PluginTables& plugins, const std::string& json,
                       const TokenizerFactory& tokenizer) {
  const std::string name = config.Has("name") ? config.String("name") : "";
  if (name == kTorchScript) return ReadTorchScript(config, plugins);
  if (name == kHfModel) return ReadHfModel(config, plugins, json, tokenizer);
  ModelFactory make = ReadNamed<ModelFactory>(config, ModelReaders(), plugins.models, {kTorchScript, kHfModel});
  const bool classifies = std::find(std::begin(kClassifiers), std::end(kClassifiers), name) != std::end(kClassifiers);
  return make != nullptr && classifies ? WithTask(std::move(make), config, plugins) : make;
}

}  // namespace composer
