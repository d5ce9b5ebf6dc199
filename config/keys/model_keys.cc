// Models.
// SPDX-License-Identifier: Apache-2.0
#include "config/keys/tables.h"

namespace composer {

const char kModelKeys[] = R"(
[model mlp] A multilayer perceptron with ReLU, for classification.
sizes | ints 1..16777216 | [64, 64, 64, 10] | Numbers of each layer: features first, classes last.

[model resnet_small] A small ResNet for images.
in_channels | int 1..16777216 | 1 | Channels of an image.
num_classes | int 1..16777216 | 10 | Classes.
widths | ints 1..16777216 | [16, 32, 64] | Channels of each stage.
blocks | int 1..16777216 | 1 | Blocks of a stage.
stem_stride | int 1..4 | 2 | Stride of the first convolution.
image_size | int 1..16777216 | 28 | Height and width of an image.

[model gpt] A GPT with learned positions. Names are llm-foundry's.
n_layers | int 1..16777216 | 4 | Transformer blocks.
n_heads | int 1..16777216 | 4 | Attention heads of a block.
d_model | int 1..16777216 | 128 | Width.
max_seq_len | int 1..16777216 | 128 | Tokens of the longest sample.
vocab_size | int 1..16777216 | 256 | Different tokens.
tie_word_embeddings | bool | true | The output layer has the weights of the embedding.
dropout | number 0..0.99 | 0 | Dropout's probability.
rule n_heads divides d_model

[model torchscript] A module saved by torch.jit.
path | text 1.. | required | The file.
task | one of classifier, language_model, custom | custom | What the module does.
loss | one of default, module, cross_entropy, binary_cross_entropy_with_logits, mse_loss, l1_loss, nll_loss | default | The loss; default: the module's own if it has one.
num_classes | int 1..16777216 | - | Checked when given.
train_metrics | names metric | (those of the task) | Metrics of training.
eval_metrics | names metric | (those of the task) | Metrics of evaluation.
)";

}  // namespace composer
