// SPDX-License-Identifier: Apache-2.0
#include <c10/util/Exception.h>

#include "trainer/models/hf/hf_families.h"
#include "trainer/models/vision/vit.h"

namespace composer {

HfFamilyModel MakeHfVit(HfConfig& config, const HfTaskOptions& task) {
  TORCH_CHECK_VALUE(!task.has_task, "model.task: a vit classifies pictures; leave it out");
  TORCH_CHECK_VALUE(task.max_seq_len == 0, "model.max_seq_len: a vit has no sequences; leave it out");
  VitOptions options;
  options.loss = task.loss;
  options.num_labels = HfLabels(config, task.num_labels);
  options.hidden_size = config.Size("hidden_size", options.hidden_size);
  options.num_hidden_layers = config.Size("num_hidden_layers", options.num_hidden_layers);
  options.num_attention_heads = config.Size("num_attention_heads", options.num_attention_heads);
  options.intermediate_size = config.Size("intermediate_size", options.intermediate_size);
  options.image_size = config.Size("image_size", options.image_size);
  options.patch_size = config.Size("patch_size", options.patch_size);
  options.num_channels = config.Size("num_channels", options.num_channels);
  options.qkv_bias = config.Bool("qkv_bias", options.qkv_bias);
  options.hidden_act = config.String("hidden_act", options.hidden_act);
  options.hidden_dropout_prob = config.Double("hidden_dropout_prob", options.hidden_dropout_prob, 0, 0.99);
  options.attention_probs_dropout_prob =
      config.Double("attention_probs_dropout_prob", options.attention_probs_dropout_prob, 0, 0.99);
  options.layer_norm_eps = config.Double("layer_norm_eps", options.layer_norm_eps, 0, 1);
  options.initializer_range = config.Double("initializer_range", options.initializer_range, 0, 10);
  config.Only("chunk_size_feed_forward", {0});
  config.Only("pruned_heads", {nlohmann::json::object()});
  config.Only("is_decoder", {false});
  config.Only("add_cross_attention", {false});
  config.Ignore({"encoder_stride", "pooler_act", "pooler_output_size", "tie_word_embeddings"});
  if (task.dropout) options.hidden_dropout_prob = options.attention_probs_dropout_prob = *task.dropout;
  if (!task.has_problem) options.loss.problem = HfProblem(config, options.num_labels);
  HfFamilyModel made;
  made.prefix = "vit.";
  made.heads = {"classifier.",          "vit.pooler.", "pooler.", "decoder.", "vit.embeddings.mask_token",
                "embeddings.mask_token"};
  made.architecture = "ViTForImageClassification";
  config.Finish();
  made.model = MakeVit(options);
  return made;
}

}  // namespace composer
