// SPDX-License-Identifier: Apache-2.0
#include "worker/job_model.h"

#include "trainer/models/gpt.h"
#include "trainer/models/mlp.h"
#include "trainer/models/resnet_small.h"
#include "worker/named_reader.h"

namespace composer {
namespace {

constexpr IntRange kSize = {.min = 1, .max = 1 << 24};

ModelFactory ReadMlp(ConfigMap config) {
  const std::vector<int64_t> sizes = config.IntList("sizes", {64, 64, 64, 10}, kSize);
  return [=] { return MakeMlp(sizes); };
}

ModelFactory ReadResNetSmall(ConfigMap config) {
  ResNetSmallOptions options;
  options.channels = config.Int("in_channels", options.channels, kSize);
  options.classes = config.Int("num_classes", options.classes, kSize);
  options.widths = config.IntList("widths", options.widths, kSize);
  options.blocks = config.Int("blocks", options.blocks, kSize);
  options.stem_stride = config.Int("stem_stride", options.stem_stride, {.min = 1, .max = 4});
  options.image_size = config.Int("image_size", options.image_size, kSize);
  return [=] { return MakeResNetSmall(options); };
}

// Names as in llm-foundry's mpt_causal_lm.
ModelFactory ReadGpt(ConfigMap config) {
  GptOptions options;
  options.layers = config.Int("n_layers", options.layers, kSize);
  options.heads = config.Int("n_heads", options.heads, kSize);
  options.width = config.Int("d_model", options.width, kSize);
  options.context = config.Int("max_seq_len", options.context, kSize);
  options.vocab = config.Int("vocab_size", options.vocab, kSize);
  options.tied_head = config.Bool("tie_word_embeddings", options.tied_head);
  options.dropout = config.Double("dropout", options.dropout, {.min = 0, .max = 0.99});
  return [=] { return MakeGpt(options); };
}

constexpr NamedReader<ModelFactory> kModels[] = {
    {"gpt", ReadGpt},
    {"mlp", ReadMlp},
    {"resnet_small", ReadResNetSmall},
};

}  // namespace

std::vector<std::string> ModelNames() { return NamesOf(kModels); }

ModelFactory ReadModel(ConfigMap config, const PluginTables& plugins) {
  return ReadNamed<ModelFactory>(config, kModels, plugins.models);
}

}  // namespace composer
