// SPDX-License-Identifier: Apache-2.0
#include <c10/util/Exception.h>

#include <algorithm>

#include "absl/strings/str_join.h"
#include "trainer/models/hf/hf_families.h"
#include "trainer/models/text/gpt2.h"
#include "trainer/models/text/llama.h"
#include "trainer/models/text/mpt.h"

namespace composer {
namespace {

constexpr double kMaxDropout = 0.99;
constexpr int64_t kMaxLayers = int64_t{1} << 24;

// A decoder generates and is trained on the next token; the file may be of the bare model.
void CheckDecoder(HfConfig& config, const HfTaskOptions& task, const std::string& causal, const std::string& bare) {
  const bool embeds = task.loss.task == TextTask::kEmbedding;
  TORCH_CHECK_VALUE((!task.has_task || embeds) && task.num_labels == 0 && task.loss.class_weights.empty() &&
                        task.loss.label_smoothing == 0 && !task.has_problem,
                    "model.task: a decoder is trained on the next token, or has task: embedding; other tasks, "
                    "num_labels, problem_type, class_weights and label_smoothing are for encoders");
  const std::vector<std::string> written = config.Strings("architectures");
  const bool fits = written.empty() || std::any_of(written.begin(), written.end(), [&](const std::string& name) {
                      return name == causal || name == bare || name == "GPT2DoubleHeadsModel";
                    });
  TORCH_CHECK_VALUE(fits, "config.json: `architectures` is [", absl::StrJoin(written, ", "), "]; supported are ",
                    causal, " and ", bare);
}

int64_t ContextOf(const char* field, int64_t table, const HfTaskOptions& task) {
  TORCH_CHECK_VALUE(task.max_seq_len <= table, "model.max_seq_len: ", task.max_seq_len, " is more than config.json's `",
                    field, "` ", table);
  return task.max_seq_len > 0 ? task.max_seq_len : table;
}

struct RopeRow {
  const char* name;
  RopeKind kind;
};
constexpr RopeRow kRopeKinds[] = {{"default", RopeKind::kDefault}, {"linear", RopeKind::kLinear},
                                  {"llama3", RopeKind::kLlama3},   {"yarn", RopeKind::kYarn},
                                  {"dynamic", RopeKind::kDynamic}, {"longrope", RopeKind::kLongRope}};

// transformers takes the original context from the file's own `original_max_position_embeddings`, which then also says
// the factor, and never from the one in rope_scaling.
void ReadLongRope(HfConfig& config, HfConfig& scaling, int64_t context, RopeOptions& rope) {
  rope.original_context = config.Size("original_max_position_embeddings", context);
  if (config.Has("original_max_position_embeddings"))
    rope.factor = static_cast<double>(context) / static_cast<double>(rope.original_context);
  scaling.Only("original_max_position_embeddings", {rope.original_context});
  TORCH_CHECK_VALUE(
      scaling.Has("factor") || scaling.Has("attention_factor") || config.Has("original_max_position_embeddings"),
      "config.json: `rope_scaling` is of kind longrope and needs `factor`, `attention_factor` or, beside it, "
      "`original_max_position_embeddings`");
  rope.short_factor = scaling.Doubles("short_factor", 1e-6, 1e6);
  rope.long_factor = scaling.Doubles("long_factor", 1e-6, 1e6);
  if (scaling.Has("attention_factor")) rope.attention_factor = scaling.Double("attention_factor", 1, 0, 1e6);
}

void ReadStretch(HfConfig& config, HfConfig& scaling, int64_t context, RopeOptions& rope) {
  rope.factor = scaling.Double("factor", 1, 1, 1e6);
  if (rope.kind == RopeKind::kLinear) return;
  if (rope.kind == RopeKind::kLongRope) {
    ReadLongRope(config, scaling, context, rope);
    return;
  }
  if (rope.kind == RopeKind::kDynamic) {
    rope.original_context = context;
    scaling.Only("original_max_position_embeddings", {context});
    return;
  }
  rope.original_context = scaling.Size("original_max_position_embeddings", context);
  if (rope.kind == RopeKind::kLlama3) {
    rope.low_freq_factor = scaling.Double("low_freq_factor", 1, 1e-6, 1e6);
    rope.high_freq_factor = scaling.Double("high_freq_factor", 4, 1e-6, 1e6);
    TORCH_CHECK_VALUE(rope.high_freq_factor > rope.low_freq_factor, "config.json: `rope_scaling.high_freq_factor` ",
                      rope.high_freq_factor, " must be more than low_freq_factor ", rope.low_freq_factor);
    return;
  }
  rope.beta_fast = scaling.Double("beta_fast", 32, 1e-6, 1e6);
  rope.beta_slow = scaling.Double("beta_slow", 1, 1e-6, 1e6);
  rope.truncate = scaling.Bool("truncate", true);
  if (scaling.Has("attention_factor")) rope.attention_factor = scaling.Double("attention_factor", 1, 0, 1e6);
  if (scaling.Has("mscale")) rope.mscale = scaling.Double("mscale", 0, 0, 1e6);
  if (scaling.Has("mscale_all_dim")) rope.mscale_all_dim = scaling.Double("mscale_all_dim", 0, 0, 1e6);
}

// `rope_scaling` of transformers 4, or `rope_parameters` of 5, which has theta in it.
RopeOptions ReadRope(HfConfig& config, double theta, int64_t context) {
  RopeOptions rope;
  const char* field = config.Has("rope_parameters") ? "rope_parameters" : "rope_scaling";
  rope.theta = config.Double("rope_theta", theta, 1, 1e15);
  HfConfig scaling = config.Object(field);
  rope.theta = scaling.Double("rope_theta", rope.theta, 1, 1e15);
  const char* key = scaling.Has("rope_type") ? "rope_type" : "type";
  scaling.Ignore({"type"});  // the older name of rope_type, beside it
  const std::string kind = scaling.String(key, "default");
  std::vector<nlohmann::json> kinds;
  for (const RopeRow& row : kRopeKinds) {
    kinds.emplace_back(row.name);
    if (kind == row.name) rope.kind = row.kind;
  }
  scaling.Only(key, kinds);
  if (rope.kind != RopeKind::kDefault) ReadStretch(config, scaling, context, rope);
  scaling.Finish();
  return rope;
}

void CheckRope(const RopeOptions& rope, int64_t head_dim) {
  TORCH_CHECK_VALUE(rope.kind != RopeKind::kDynamic || head_dim > 2,
                    "config.json: `rope_scaling` of kind dynamic needs ", "heads of more than 2 numbers");
  if (rope.kind != RopeKind::kLongRope) return;
  for (const auto& [field, list] : {std::pair{"short_factor", &rope.short_factor}, {"long_factor", &rope.long_factor}})
    TORCH_CHECK_VALUE(static_cast<int64_t>(list->size()) == head_dim / 2, "config.json: `rope_scaling.", field,
                      "` has ", list->size(), " numbers, but half of head_dim is ", head_dim / 2);
}

// Returns the window of each layer, empty without any. Mistral's and Mixtral's is of all layers, Qwen's of those from
// `max_window_layers` on or those that `layer_types` names.
std::vector<int64_t> ReadWindows(HfConfig& config, const std::string& model_type, int64_t layers) {
  constexpr int64_t kDefaultWindow = 4096, kDefaultFirst = 28;
  const bool by_layer = model_type == "qwen2" || model_type == "qwen3";
  const bool is_used = config.Bool("use_sliding_window", !by_layer);
  const bool has_default = model_type != "mixtral" && !config.Mentions("sliding_window");
  const int64_t asked = config.Size("sliding_window", has_default ? kDefaultWindow : 0), window = is_used ? asked : 0;
  const int64_t first = config.Int("max_window_layers", kDefaultFirst, 0, kMaxLayers);
  const std::vector<std::string> types = config.Strings("layer_types");
  TORCH_CHECK_VALUE(types.empty() || static_cast<int64_t>(types.size()) == layers, "config.json: `layer_types` has ",
                    types.size(), " entries for ", layers, " layers");
  std::vector<int64_t> windows;
  for (int64_t i = 0; i < layers; ++i) {
    bool slides = window > 0 && (!by_layer || i >= first);
    if (!types.empty()) {
      const std::string& type = types[static_cast<size_t>(i)];
      const bool asks = type == "sliding_attention";
      TORCH_CHECK_VALUE(asks || type == "full_attention", "config.json: `layer_types` has `", type,
                        "`; supported are full_attention and sliding_attention");
      TORCH_CHECK_VALUE(asks == slides || (by_layer && window > 0), "config.json: `layer_types` has `", type,
                        "`, but by `sliding_window`", by_layer ? " and `use_sliding_window`" : "", " ",
                        slides ? "all layers have a window" : "no layer has a window");
      slides = asks;
    }
    windows.push_back(slides ? window : 0);
  }
  const bool any = std::any_of(windows.begin(), windows.end(), [](int64_t each) { return each > 0; });
  return any ? windows : std::vector<int64_t>();
}

}  // namespace

HfFamilyModel MakeHfGpt2(HfConfig& config, const HfTaskOptions& task) {
  CheckDecoder(config, task, "GPT2LMHeadModel", "GPT2Model");
  Gpt2Options options;
  options.vocab_size = config.Size("vocab_size", options.vocab_size);
  options.n_positions = config.Size("n_positions", options.n_positions);
  options.n_embd = config.Size("n_embd", options.n_embd);
  options.n_layer = config.Size("n_layer", options.n_layer);
  options.n_head = config.Size("n_head", options.n_head);
  options.n_inner = config.Has("n_inner") ? config.Size("n_inner", 0) : 0;
  options.activation_function = config.String("activation_function", options.activation_function);
  options.resid_pdrop = config.Double("resid_pdrop", options.resid_pdrop, 0, kMaxDropout);
  options.embd_pdrop = config.Double("embd_pdrop", options.embd_pdrop, 0, kMaxDropout);
  options.attn_pdrop = config.Double("attn_pdrop", options.attn_pdrop, 0, kMaxDropout);
  options.layer_norm_epsilon = config.Double("layer_norm_epsilon", options.layer_norm_epsilon, 0, 1);
  options.initializer_range = config.Double("initializer_range", options.initializer_range, 0, 10);
  options.tie_word_embeddings = config.Bool("tie_word_embeddings", true);
  config.Only("n_ctx", {options.n_positions});
  config.Only("scale_attn_weights", {true});
  config.Only("scale_attn_by_inverse_layer_idx", {false});
  config.Only("add_cross_attention", {false});
  config.Ignore({"reorder_and_upcast_attn", "summary_activation", "summary_first_dropout", "summary_proj_to_labels",
                 "summary_type", "summary_use_proj"});
  TORCH_CHECK_VALUE(task.max_seq_len == 0 || task.max_seq_len == options.n_positions,
                    "model.max_seq_len: config.json's `n_positions` is the size of a table, ", options.n_positions);
  if (task.dropout) options.resid_pdrop = options.embd_pdrop = options.attn_pdrop = *task.dropout;
  config.Finish();
  return {MakeGpt2(options), "transformer.", {"lm_head."}, {"lm_head.weight"}, "GPT2LMHeadModel"};
}

HfFamilyModel MakeHfLlama(HfConfig& config, const HfTaskOptions& task, const std::string& model_type) {
  const bool qwen2 = model_type == "qwen2", qwen3 = model_type == "qwen3", mixtral = model_type == "mixtral";
  const std::string family = model_type == "llama"     ? "Llama"
                             : model_type == "mistral" ? "Mistral"
                             : qwen2                   ? "Qwen2"
                             : qwen3                   ? "Qwen3"
                                                       : "Mixtral";
  CheckDecoder(config, task, family + "ForCausalLM", family + "Model");
  LlamaOptions options;
  options.vocab_size = config.RequiredSize("vocab_size");
  options.hidden_size = config.RequiredSize("hidden_size");
  options.intermediate_size = config.RequiredSize("intermediate_size");
  options.num_hidden_layers = config.RequiredSize("num_hidden_layers");
  options.num_attention_heads = config.RequiredSize("num_attention_heads");
  options.num_key_value_heads = config.Size("num_key_value_heads", options.num_attention_heads);
  TORCH_CHECK_VALUE(config.Has("head_dim") || options.hidden_size % options.num_attention_heads == 0,
                    "config.json: `hidden_size` ", options.hidden_size, " must be a multiple of num_attention_heads ",
                    options.num_attention_heads);
  options.head_dim = config.Size("head_dim", qwen3 ? 128 : options.hidden_size / options.num_attention_heads);
  const int64_t table = config.RequiredSize("max_position_embeddings");
  options.rope = ReadRope(config, mixtral ? 1e6 : 10000, table);
  CheckRope(options.rope, options.head_dim);
  // With `dynamic` positions go on behind the table.
  const bool longer = options.rope.kind == RopeKind::kDynamic && task.max_seq_len > table;
  options.context = longer ? task.max_seq_len : ContextOf("max_position_embeddings", table, task);
  options.hidden_act = config.String("hidden_act", options.hidden_act);
  options.rms_norm_eps = config.Double("rms_norm_eps", mixtral ? 1e-5 : 1e-6, 0, 1);
  options.initializer_range = config.Double("initializer_range", options.initializer_range, 0, 10);
  options.attention_dropout = config.Double("attention_dropout", 0, 0, kMaxDropout);
  options.tie_word_embeddings = config.Bool("tie_word_embeddings", false);
  options.pad_token_id = config.Int("pad_token_id", -1, -1, options.vocab_size - 1);
  options.qk_norm = qwen3;
  options.qkv_bias = qwen2;
  if (model_type == "llama" || qwen3) options.qkv_bias = options.output_bias = config.Bool("attention_bias", false);
  if (model_type == "llama") options.mlp_bias = config.Bool("mlp_bias", false);
  if (mixtral) {
    options.num_local_experts = config.Size("num_local_experts", 8);
    options.num_experts_per_tok = config.Size("num_experts_per_tok", 2);
    config.Only("output_router_logits", {false});
    config.Only("router_jitter_noise", {0.0});
    config.Ignore({"router_aux_loss_coef"});
  }
  if (model_type != "llama") options.windows = ReadWindows(config, model_type, options.num_hidden_layers);
  config.Ignore({"pretraining_tp"});
  if (task.dropout) options.attention_dropout = *task.dropout;
  config.Finish();
  return {MakeLlama(options), "model.", {"lm_head."}, {"lm_head.weight"}, family + "ForCausalLM"};
}

HfFamilyModel MakeHfMpt(HfConfig& config, const HfTaskOptions& task) {
  CheckDecoder(config, task, "MptForCausalLM", "MptModel");
  MptOptions options;
  options.vocab_size = config.Size("vocab_size", options.vocab_size);
  options.d_model = config.Size("d_model", options.d_model);
  options.n_heads = config.Size("n_heads", options.n_heads);
  options.n_layers = config.Size("n_layers", options.n_layers);
  config.Only("expansion_ratio", {4});  // transformers takes no other
  options.max_seq_len = ContextOf("max_seq_len", config.Size("max_seq_len", options.max_seq_len), task);
  options.resid_pdrop = config.Double("resid_pdrop", 0, 0, kMaxDropout);
  options.emb_pdrop = config.Double("emb_pdrop", 0, 0, kMaxDropout);
  options.layer_norm_epsilon = config.Double("layer_norm_epsilon", options.layer_norm_epsilon, 0, 1);
  options.initializer_range = config.Double("initializer_range", options.initializer_range, 0, 10);
  config.Only("no_bias", {true});
  config.Only("learned_pos_emb", {true, false});  // it has no effect beside ALiBi
  config.Only("norm_type", {"low_precision_layernorm", "layernorm"});
  config.Only("tie_word_embeddings", {true});
  config.Only("logit_scale", {});
  config.Only("embedding_fraction", {1.0});
  config.Ignore({"verbose", "init_device", "init_config", "tokenizer_name"});
  HfConfig attention = config.Object("attn_config");
  options.attn_pdrop = attention.Double("attn_pdrop", 0, 0, kMaxDropout);
  options.alibi_bias_max = attention.Double("alibi_bias_max", 8, 1e-6, 1e6);
  if (attention.Has("softmax_scale")) options.softmax_scale = attention.Double("softmax_scale", 0, 1e-9, 1e9);
  TORCH_CHECK_VALUE(attention.Bool("alibi", true), "config.json: `attn_config.alibi` is false; MPT has no other ",
                    "positions here");
  attention.Only("attn_type", {"multihead_attention"});
  attention.Only("clip_qkv", {});
  attention.Only("qk_ln", {false});
  attention.Only("prefix_lm", {false});
  attention.Only("attn_uses_sequence_id", {false});
  attention.Ignore({"attn_impl"});
  attention.Finish();
  if (task.dropout) options.resid_pdrop = options.emb_pdrop = options.attn_pdrop = *task.dropout;
  config.Finish();
  return {MakeMpt(options), "transformer.", {"lm_head."}, {"lm_head.weight"}, "MptForCausalLM"};
}

}  // namespace composer
