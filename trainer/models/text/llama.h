// The decoder of Llama, Mistral, Qwen2, Qwen3 and, with experts, Mixtral, as Hugging Face has it: RMSNorm, rotary
// positions, grouped-query attention, SwiGLU. Touvron et al. 2023, arXiv:2302.13971; transformers models/llama,
// models/mistral, models/qwen2, models/qwen3, models/mixtral.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "trainer/models/text/decoder_model.h"
#include "trainer/models/text/rotary.h"

namespace composer {

// Names are LlamaConfig's, where it has them.
struct LlamaOptions {
  int64_t vocab_size = 32000, hidden_size = 4096, intermediate_size = 11008, num_hidden_layers = 32;
  int64_t num_attention_heads = 32, num_key_value_heads = 32;  // the second divides the first
  int64_t head_dim = 128;                                      // even
  int64_t context = 2048;                                      // the longest input
  std::string hidden_act = "silu";
  double rms_norm_eps = 1e-6, initializer_range = 0.02, attention_dropout = 0;
  RopeOptions rope;
  bool qkv_bias = false, output_bias = false, mlp_bias = false;
  bool qk_norm = false;  // Qwen3: queries and keys are normalised by head
  bool tie_word_embeddings = false;
  std::vector<int64_t> windows;   // by layer: how many tokens one sees, 0: all; empty: all see all
  int64_t pad_token_id = -1;      // whose embedding gets no gradient as an input; -1: none
  int64_t num_local_experts = 0;  // 0: no experts
  int64_t num_experts_per_tok = 2;
};

// Parameters: model.embed_tokens.weight,
// model.layers.0.{self_attn.{q_proj,k_proj,v_proj,o_proj,q_norm,k_norm},mlp.{gate_proj,up_proj,down_proj},
// input_layernorm,post_attention_layernorm}.weight (and .bias), model.norm.weight, lm_head.weight if not tied; with
// experts, in mlp's place, block_sparse_moe.gate.weight and block_sparse_moe.experts.0.{w1,w2,w3}.weight.
// flops_per_sample counts the experts that a token passes. Throws c10::ValueError for what does not fit together.
std::shared_ptr<DecoderModel> MakeLlama(const LlamaOptions& options);

}  // namespace composer
