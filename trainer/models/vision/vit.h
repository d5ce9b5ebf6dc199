// The vision transformer as Hugging Face has it. Dosovitskiy et al. 2020, arXiv:2010.11929; transformers
// models/vit/modeling_vit.py.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "trainer/models/text/text_head_model.h"

namespace composer {

// Names are ViTConfig's.
struct VitOptions {
  TextLossOptions loss;  // the task is kSequenceClassification: of a picture, here
  int64_t num_labels = 2;
  int64_t hidden_size = 768, num_hidden_layers = 12, num_attention_heads = 12, intermediate_size = 3072;
  int64_t image_size = 224, patch_size = 16, num_channels = 3;
  bool qkv_bias = true;
  std::string hidden_act = "gelu";
  double hidden_dropout_prob = 0, attention_probs_dropout_prob = 0;
  double layer_norm_eps = 1e-12, initializer_range = 0.02;
};

// Maps inputs [B, num_channels, image_size, image_size] to logits [B, num_labels], of the first token. Parameters have
// ViTForImageClassification's names; their first values are drawn as transformers draws them. Losses and metrics are
// TextHeadModel's. Throws c10::ValueError for what does not fit together, and for pictures of another size.
std::shared_ptr<TextHeadModel> MakeVit(const VitOptions& options);

}  // namespace composer
