// GPT-2 as Hugging Face has it. Radford et al. 2019; transformers models/gpt2/modeling_gpt2.py, GPT2LMHeadModel.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "trainer/models/text/decoder_model.h"

namespace composer {

// Names are GPT2Config's.
struct Gpt2Options {
  int64_t vocab_size = 50257, n_positions = 1024, n_embd = 768, n_layer = 12, n_head = 12;
  int64_t n_inner = 0;  // 0: 4 n_embd
  std::string activation_function = "gelu_new";
  double resid_pdrop = 0.1, embd_pdrop = 0.1, attn_pdrop = 0.1;
  double layer_norm_epsilon = 1e-5, initializer_range = 0.02;
  bool tie_word_embeddings = true;
};

// Parameters: transformer.{wte,wpe}.weight, transformer.h.0.{ln_1,attn.c_attn,attn.c_proj,ln_2,mlp.c_fc,mlp.c_proj}.
// {weight,bias}, transformer.ln_f.{weight,bias}, lm_head.weight if not tied. Throws c10::ValueError for what does not
// fit together.
std::shared_ptr<DecoderModel> MakeGpt2(const Gpt2Options& options);

}  // namespace composer
