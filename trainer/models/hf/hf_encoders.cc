// SPDX-License-Identifier: Apache-2.0
#include <c10/util/Exception.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "trainer/models/hf/hf_families.h"

namespace composer {
namespace {

struct ArchitectureRow {
  const char* suffix;
  TextTask task;
};
constexpr ArchitectureRow kArchitectures[] = {{"ForMaskedLM", TextTask::kMaskedLm},
                                              {"ForPreTraining", TextTask::kMaskedLm},
                                              {"ForSequenceClassification", TextTask::kSequenceClassification},
                                              {"ForTokenClassification", TextTask::kTokenClassification},
                                              {"Model", TextTask::kFeatures}};

TextTask TaskOf(HfConfig& config, const std::string& family) {
  const std::vector<std::string> written = config.Strings("architectures");
  for (const ArchitectureRow& row : kArchitectures) {
    if (std::find(written.begin(), written.end(), family + row.suffix) != written.end()) return row.task;
  }
  TORCH_CHECK_VALUE(
      false, "config.json: `architectures` is [", absl::StrJoin(written, ", "), "], of which ", family,
      " has none; say model.task: masked_lm, sequence_classification, token_classification, features or embedding");
}

std::string ArchitectureOf(const std::string& family, TextTask task) {
  if (task == TextTask::kEmbedding) task = TextTask::kFeatures;
  for (const ArchitectureRow& row : kArchitectures) {
    if (row.task == task) return family + row.suffix;
  }
  return family;
}

}  // namespace

ProblemType HfProblem(HfConfig& config, int64_t labels) {
  const std::string problem = config.String("problem_type", labels == 1 ? "regression" : "single_label_classification");
  if (problem == "regression") return ProblemType::kRegression;
  if (problem == "multi_label_classification") return ProblemType::kMultiLabel;
  config.Only("problem_type", {"regression", "single_label_classification", "multi_label_classification"});
  return ProblemType::kSingleLabel;
}

int64_t HfLabels(HfConfig& config, int64_t asked) {
  if (asked > 0) return asked;
  const int64_t names = config.Entries("id2label");
  return names > 0 ? names : config.Size("num_labels", 2);
}

HfFamilyModel MakeHfBert(HfConfig& config, const HfTaskOptions& task, bool roberta) {
  const std::string family = roberta ? "Roberta" : "Bert";
  BertOptions options;
  options.roberta = roberta;
  options.loss = task.loss;
  if (!task.has_task) options.loss.task = TaskOf(config, family);
  options.num_labels = HfLabels(config, task.num_labels);
  options.vocab_size = config.Size("vocab_size", roberta ? 50265 : options.vocab_size);
  options.hidden_size = config.Size("hidden_size", options.hidden_size);
  options.num_hidden_layers = config.Size("num_hidden_layers", options.num_hidden_layers);
  options.num_attention_heads = config.Size("num_attention_heads", options.num_attention_heads);
  options.intermediate_size = config.Size("intermediate_size", options.intermediate_size);
  options.max_position_embeddings = config.Size("max_position_embeddings", options.max_position_embeddings);
  options.type_vocab_size = config.Size("type_vocab_size", options.type_vocab_size);
  options.pad_token_id = config.Int("pad_token_id", roberta ? 1 : 0, 0, options.vocab_size - 1);
  options.hidden_act = config.String("hidden_act", options.hidden_act);
  options.hidden_dropout_prob = config.Double("hidden_dropout_prob", options.hidden_dropout_prob, 0, 0.99);
  options.attention_probs_dropout_prob =
      config.Double("attention_probs_dropout_prob", options.attention_probs_dropout_prob, 0, 0.99);
  options.classifier_dropout = config.Double("classifier_dropout", options.hidden_dropout_prob, 0, 0.99);
  options.layer_norm_eps = config.Double("layer_norm_eps", options.layer_norm_eps, 0, 1);
  options.initializer_range = config.Double("initializer_range", options.initializer_range, 0, 10);
  config.Only("position_embedding_type", {"absolute"});
  config.Only("is_decoder", {false});
  config.Only("add_cross_attention", {false});
  config.Only("chunk_size_feed_forward", {0});
  config.Only("pruned_heads", {nlohmann::json::object()});
  config.Only("tie_word_embeddings", {true});
  config.Ignore({"directionality", "pooler_fc_size", "pooler_num_attention_heads", "pooler_num_fc_layers",
                 "pooler_size_per_head", "pooler_type"});
  if (task.dropout)
    options.hidden_dropout_prob = options.attention_probs_dropout_prob = options.classifier_dropout = *task.dropout;
  if (options.loss.task != TextTask::kSequenceClassification) {
    options.loss.problem = ProblemType::kSingleLabel;
  } else if (!task.has_problem) {
    options.loss.problem = HfProblem(config, options.num_labels);
  }
  HfFamilyModel made;
  made.prefix = roberta ? "roberta." : "bert.";
  made.heads = {"classifier.", "cls.", "lm_head.", absl::StrCat(made.prefix, "pooler."), "pooler."};
  made.tied = {"cls.predictions.decoder.weight", "cls.predictions.decoder.bias", "lm_head.decoder.weight",
               "lm_head.decoder.bias"};
  made.architecture = ArchitectureOf(family, options.loss.task);
  config.Finish();
  made.model = MakeBert(options);
  return made;
}

HfFamilyModel MakeHfClipText(HfConfig& config, const HfTaskOptions& task) {
  const bool features = !task.has_task || task.loss.task == TextTask::kFeatures;
  TORCH_CHECK_VALUE(features, "model.task: a clip_text_model has features only; leave it out");
  ClipTextOptions options;
  options.vocab_size = config.Size("vocab_size", options.vocab_size);
  options.hidden_size = config.Size("hidden_size", options.hidden_size);
  options.intermediate_size = config.Size("intermediate_size", options.intermediate_size);
  options.num_hidden_layers = config.Size("num_hidden_layers", options.num_hidden_layers);
  options.num_attention_heads = config.Size("num_attention_heads", options.num_attention_heads);
  options.max_position_embeddings = config.Size("max_position_embeddings", options.max_position_embeddings);
  options.eos_token_id = config.Int("eos_token_id", options.eos_token_id, 0, int64_t{1} << 24);
  options.hidden_act = config.String("hidden_act", options.hidden_act);
  options.attention_dropout = config.Double("attention_dropout", options.attention_dropout, 0, 0.99);
  options.layer_norm_eps = config.Double("layer_norm_eps", options.layer_norm_eps, 0, 1);
  options.initializer_range = config.Double("initializer_range", options.initializer_range, 0, 10);
  config.Ignore({"dropout", "initializer_factor", "projection_dim"});  // dropout is read by nothing of transformers
  if (task.dropout) options.attention_dropout = *task.dropout;
  HfFamilyModel made;
  made.prefix = "text_model.";
  made.heads = {"text_projection.", "text_model.embeddings.position_ids"};
  made.architecture = "CLIPTextModel";
  config.Finish();
  made.model = MakeClipText(options);
  return made;
}

}  // namespace composer
