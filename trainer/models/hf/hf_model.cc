// SPDX-License-Identifier: Apache-2.0
#include "trainer/models/hf/hf_model.h"

#include <torch/types.h>

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "base/file.h"
#include "base/format/json.h"
#include "base/nearest_name.h"
#include "base/status_macros.h"
#include "trainer/core/torch_status.h"
#include "trainer/layers/undeferred_scope.h"
#include "trainer/models/hf/hf_weights.h"
#include "trainer/models/hf/timm_vit.h"

namespace composer {
namespace {

constexpr ParallelStyle kCol = ParallelStyle::kColwise, kRow = ParallelStyle::kRowwise;

struct FamilyRow {
  const char* model_type;
  HfFamilyModel (*make)(HfConfig& config, const HfTaskOptions& task);
  LayerPlan (*plan)();
};

LayerPlan BertPlan() {
  return {{"*.attention.self.query", kCol},   {"*.attention.self.key", kCol}, {"*.attention.self.value", kCol},
          {"*.attention.output.dense", kRow}, {"*.intermediate.dense", kCol}, {"*[0-9].output.dense", kRow}};
}
LayerPlan LlamaPlan() {
  return {{"*.q_proj", kCol},    {"*.k_proj", kCol},  {"*.v_proj", kCol},   {"*.o_proj", kRow},
          {"*.gate_proj", kCol}, {"*.up_proj", kCol}, {"*.down_proj", kRow}};
}
LayerPlan Qwen3Plan() {
  LayerPlan plan = LlamaPlan();
  plan.push_back({"*.q_norm", ParallelStyle::kSequence});
  plan.push_back({"*.k_norm", ParallelStyle::kSequence});
  return plan;
}
LayerPlan Gpt2Plan() {
  return {{"*.attn.c_attn", kCol}, {"*.attn.c_proj", kRow}, {"*.mlp.c_fc", kCol}, {"*.mlp.c_proj", kRow}};
}
LayerPlan MptPlan() { return {{"*.Wqkv", kCol}, {"*.out_proj", kRow}, {"*.up_proj", kCol}, {"*.down_proj", kRow}}; }
LayerPlan ClipPlan() {
  return {{"*.q_proj", kCol},   {"*.k_proj", kCol}, {"*.v_proj", kCol},
          {"*.out_proj", kRow}, {"*.fc1", kCol},    {"*.fc2", kRow}};
}
LayerPlan MixtralPlan() {
  return {{"*.q_proj", kCol}, {"*.k_proj", kCol}, {"*.v_proj", kCol}, {"*.o_proj", kRow},
          {"*.w1", kCol},     {"*.w3", kCol},     {"*.w2", kRow}};
}

LayerPlan VitPlan() {
  return {{"*.attention.attention.query", kCol}, {"*.attention.attention.key", kCol},
          {"*.attention.attention.value", kCol}, {"*.attention.output.dense", kRow},
          {"*.intermediate.dense", kCol},        {"*[0-9].output.dense", kRow}};
}

template <bool kRoberta>
HfFamilyModel MakeBertFamily(HfConfig& config, const HfTaskOptions& task) {
  return MakeHfBert(config, task, kRoberta);
}

const FamilyRow kFamilies[] = {
    {"bert", MakeBertFamily<false>, BertPlan},
    {"clip_text_model", MakeHfClipText, ClipPlan},
    {"gpt2", MakeHfGpt2, Gpt2Plan},
    {"llama", [](HfConfig& c, const HfTaskOptions& t) { return MakeHfLlama(c, t, "llama"); }, LlamaPlan},
    {"mistral", [](HfConfig& c, const HfTaskOptions& t) { return MakeHfLlama(c, t, "mistral"); }, LlamaPlan},
    {"mixtral", [](HfConfig& c, const HfTaskOptions& t) { return MakeHfLlama(c, t, "mixtral"); }, MixtralPlan},
    {"mpt", MakeHfMpt, MptPlan},
    {"qwen2", [](HfConfig& c, const HfTaskOptions& t) { return MakeHfLlama(c, t, "qwen2"); }, LlamaPlan},
    {"qwen3", [](HfConfig& c, const HfTaskOptions& t) { return MakeHfLlama(c, t, "qwen3"); }, Qwen3Plan},
    {"roberta", MakeBertFamily<true>, BertPlan},
    {"vit", MakeHfVit, VitPlan},
};

const FamilyRow& FamilyOf(HfConfig& config) {
  const std::string type = config.String("model_type", "");
  for (const FamilyRow& row : kFamilies) {
    if (type == row.model_type) return row;
  }
  const std::vector<std::string> types = HfModelTypes();
  TORCH_CHECK_VALUE(false, "config.json: `model_type` is `", type, "`; supported are ", absl::StrJoin(types, ", "),
                    DidYouMean(type, types));
}

// The file's text with what the user has changed.
std::string ConfigFor(const std::string& text, const HfFamilyModel& made, const HfTaskOptions& task) {
  nlohmann::ordered_json json = ParseOrderedJson(text);
  json["architectures"] = {made.architecture};
  if (task.num_labels > 0) {
    nlohmann::ordered_json labels = nlohmann::ordered_json::object(), ids = labels;
    for (int64_t i = 0; i < task.num_labels; ++i) {
      labels[absl::StrCat(i)] = absl::StrCat("LABEL_", i);
      ids[absl::StrCat("LABEL_", i)] = i;
    }
    const bool same = json.contains("id2label") && static_cast<int64_t>(json["id2label"].size()) == task.num_labels;
    if (!same) {
      json["id2label"] = std::move(labels);
      json["label2id"] = std::move(ids);
    }
    json.erase("num_labels");
  }
  if (task.has_problem) {
    json["problem_type"] = task.loss.problem == ProblemType::kRegression   ? "regression"
                           : task.loss.problem == ProblemType::kMultiLabel ? "multi_label_classification"
                                                                           : "single_label_classification";
  }
  return json.dump(2) + "\n";
}

// transformers has no class of a task of its own for embeddings: the body is the bare model.
void AsEmbedding(HfFamilyModel& made, const EmbeddingOptions& options) {
  made.model = MakeEmbeddingModel(made.model, options);
  for (const char* causal : {"ForCausalLM", "LMHeadModel"}) {
    if (absl::EndsWith(made.architecture, causal))
      made.architecture = absl::StrCat(absl::StripSuffix(made.architecture, causal), "Model");
  }
}

struct ReadModel {
  HfFamilyModel made;
  bool new_heads;
};

ReadModel MakeFrom(const std::string& text, const HfTaskOptions& task) {
  absl::StatusOr<HfConfig> config = HfConfig::Parse(text);
  ThrowIfError(config.status());
  const FamilyRow& family = FamilyOf(*config);
  const std::vector<std::string> written = config->Strings("architectures");
  ReadModel read{family.make(*config, task), true};
  if (task.loss.task == TextTask::kEmbedding) AsEmbedding(read.made, task.embedding);
  read.new_heads = std::find(written.begin(), written.end(), read.made.architecture) == written.end();
  auto* model = dynamic_cast<HuggingFaceModel*>(read.made.model.get());
  model->config_json = ConfigFor(text, read.made, task);
  return read;
}

// Returns the text of the file with the user's fields in it.
absl::StatusOr<std::string> ReadConfigText(const HfModelOptions& options) {
  std::string text = "{}";
  if (!options.path.empty()) {
    absl::StatusOr<std::string> read = ReadFile(JoinPath(options.path, "config.json"), int64_t{1} << 20);
    if (absl::IsNotFound(read.status()))
      return absl::NotFoundError(
          absl::StrCat(read.status().message(),
                       "; nothing comes from the Hugging Face hub here: ", "download the folder, and write its path"));
    ASSIGN_OR_RETURN(text, std::move(read));
    RETURN_IF_ERROR(CatchTorch([&] { text = FromTimmConfig(text); }));
  }
  if (options.config.empty()) return text;
  RETURN_IF_ERROR(HfConfig::Parse(text).status());
  RETURN_IF_ERROR(HfConfig::Parse(options.config).status());
  nlohmann::ordered_json json = ParseOrderedJson(text);
  json.update(ParseOrderedJson(options.config));
  return json.dump();
}

struct Words {
  int64_t file = 0, own = 0;  // rows of the file and of the model; 0: the same
};

// Writes the number of tokens into the text, if there are more than it says.
Words AddWords(int64_t min_vocab, std::string& text) {
  nlohmann::ordered_json json = ParseOrderedJson(text);
  const auto written = json.find("vocab_size");
  TORCH_CHECK_VALUE(written != json.end() && written->is_number_integer(),
                    "model.allow_embedding_resizing: config.json has no `vocab_size`, so its model has no word table");
  Words words{written->get<int64_t>(), min_vocab};
  if (words.own <= words.file) return {};
  *written = words.own;
  text = json.dump();
  return words;
}

}  // namespace

std::vector<std::string> HfModelTypes() {
  std::vector<std::string> types;
  for (const FamilyRow& row : kFamilies) types.emplace_back(row.model_type);
  return types;
}

std::shared_ptr<Model> LoadHfModel(const HfModelOptions& options) {
  absl::StatusOr<std::string> text = ReadConfigText(options);
  ThrowIfError(Annotate(text.status(), options.path.empty() ? "model.config" : "model.path"));
  const Words words = options.min_vocab > 0 ? AddWords(options.min_vocab, *text) : Words();
  const ReadModel read = MakeFrom(*text, options.task);
  auto& description = dynamic_cast<HuggingFaceModel&>(*read.made.model);
  description.added_tokens = words.own - words.file;
  if (options.path.empty()) return read.made.model;
  const std::string folder = AbsolutePath(options.path);
  description.folder = folder;
  if (!options.pretrained) return read.made.model;
  const absl::StatusOr<HfWeights> weights = [&] {
    const UndeferredScope files;
    return FindHfWeights(folder);
  }();
  ThrowIfError(Annotate(weights.status(), "model.path"));
  TakeHfWeights(*read.made.model, FromTimmWeights(*weights),
                {read.made.prefix, read.made.heads, read.made.tied, read.new_heads, words.file, words.own});
  return read.made.model;
}

absl::StatusOr<LayerPlan> HfLayerPlan(const std::string& model_type) {
  for (const FamilyRow& row : kFamilies) {
    if (model_type == row.model_type) return row.plan();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("`", model_type, "` is none of the families ", absl::StrJoin(HfModelTypes(), ", ")));
}

absl::StatusOr<std::string> ReadHfModelType(const HfModelOptions& options) {
  ASSIGN_OR_RETURN(const std::string text, ReadConfigText(options));
  std::string type;
  RETURN_IF_ERROR(CatchTorch([&] {
    absl::StatusOr<HfConfig> config = HfConfig::Parse(text);
    ThrowIfError(config.status());
    type = FamilyOf(*config).model_type;
  }));
  return type;
}

}  // namespace composer
