// A decoder-only transformer as GPT-2: learned positions, norm before each part, GELU. Radford et al. 2019.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "trainer/core/model.h"

namespace composer {

struct GptOptions {
  int64_t layers = 4;
  int64_t heads = 4;
  int64_t width = 128;    // a multiple of heads
  int64_t context = 128;  // the longest input
  int64_t vocab = 256;
  bool tied_head = true;  // the last layer's weight is the token embedding
  double dropout = 0;     // after the embedding, in attention and after each part; in [0, 1)
};

// inputs int64 [B, T <= context] -> logits [B, T, vocab]. Loss: NextTokenCrossEntropy. Metrics: LanguageCrossEntropy in
// training; with LanguagePerplexity in evaluation. Weights ~ N(0, 0.02), those that end a residual branch divided by
// sqrt(2 layers), biases 0, from torch's generator. Names: transformer.wte.weight, transformer.wpe.weight,
// transformer.blocks.0.{ln_1,attn.qkv,attn.proj,ln_2,mlp.fc,mlp.proj}.{weight,bias}, transformer.ln_f.*,
// lm_head.weight. flops_per_sample: of a full context. Throws c10::ValueError for bad options.
std::shared_ptr<Model> MakeGpt(const GptOptions& options);

}  // namespace composer
