// timm's vision transformers (huggingface/pytorch-image-models, timm/models/vision_transformer.py) as transformers'
// ViTForImageClassification: the same arithmetic under other names, with query, key and value in one layer.
//   cls_token, pos_embed                         vit.embeddings.{cls_token,position_embeddings}
//   patch_embed.proj                             vit.embeddings.patch_embeddings.projection
//   blocks.0.{norm1,norm2}                       vit.encoder.layer.0.{layernorm_before,layernorm_after}
//   blocks.0.attn.qkv, a third of the rows each  vit.encoder.layer.0.attention.attention.{query,key,value}
//   blocks.0.attn.proj, mlp.fc1, mlp.fc2         vit.encoder.layer.0.{attention.output,intermediate,output}.dense
//   norm, head                                   vit.layernorm, classifier
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "trainer/models/hf/hf_weights.h"

namespace composer {

// Returns the config.json of transformers for a config.json as timm writes it (`architecture`, `num_classes`,
// `model_args`), and any other text as it is. Throws StatusError that names the field that is wrong or has no
// equivalent: supported are vit_{tiny,small,base,large,huge}_patchP_SIZE, pooled by the first token.
std::string FromTimmConfig(const std::string& text);

// Renames and divides weights with timm's names; others are returned as they are.
HfWeights FromTimmWeights(HfWeights weights);

}  // namespace composer
