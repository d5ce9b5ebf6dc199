// MPT as Hugging Face and llm-foundry have it: no biases, ALiBi in place of positions. MosaicML 2023; transformers
// models/mpt/modeling_mpt.py.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "trainer/models/text/decoder_model.h"

namespace composer {

// Names are MptConfig's.
struct MptOptions {
  int64_t vocab_size = 50368, d_model = 2048, n_heads = 16, n_layers = 24, max_seq_len = 2048;
  double resid_pdrop = 0, emb_pdrop = 0, attn_pdrop = 0;
  double layer_norm_epsilon = 1e-5, initializer_range = 0.02;
  double alibi_bias_max = 8;
  double softmax_scale = 0;  // 0: 1 / sqrt(head width)
};

// Parameters: transformer.wte.weight,
// transformer.blocks.0.{norm_1,attn.Wqkv,attn.out_proj,norm_2,ffn.up_proj,ffn.down_proj}.weight,
// transformer.norm_f.weight. The head is the token embedding. Throws c10::ValueError for what does not fit together.
std::shared_ptr<DecoderModel> MakeMpt(const MptOptions& options);

}  // namespace composer
