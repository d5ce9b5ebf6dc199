// Language models of two layers and two heads over eight tokens, for tests that need any model.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "trainer/models/gpt.h"
#include "trainer/models/text/llama.h"

namespace composer {

inline std::shared_ptr<Model> TinyGpt(int64_t vocab, int64_t width) {
  return MakeGpt({.layers = 2, .heads = 2, .width = width, .context = 8, .vocab = vocab});
}

// Both heads share their keys and values.
inline std::shared_ptr<Model> TinyLlama(int64_t vocab, int64_t width) {
  LlamaOptions options;
  options.vocab_size = vocab;
  options.hidden_size = width;
  options.intermediate_size = 2 * width;
  options.num_hidden_layers = 2;
  options.num_attention_heads = 2;
  options.num_key_value_heads = 1;
  options.head_dim = width / 2;
  options.context = 8;
  return MakeLlama(options);
}

}  // namespace composer
