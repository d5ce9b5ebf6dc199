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

[model hf] Of Hugging Face's families: bert, gpt2, llama, mistral, mixtral, mpt, qwen2, qwen3, roberta or vit.
path | text | - | The folder, with config.json and weights; without it, `config` says everything.
config | map | - | Fields of config.json, in place of the file's.
pretrained | bool | true | Load the weights; false: draw them.
task | one of auto, masked_lm, sequence_classification, token_classification, features | auto | An encoder's head; auto: that of the file's `architectures`.
num_labels | int 0..16777216 | 0 | Labels of a classification; 0: the file's, else 2.
problem_type | one of auto, single_label_classification, multi_label_classification, regression | auto | The loss of sequence classification; auto: the file's, regression for one label.
max_seq_len | int 0..16777216 | 0 | The longest input of a decoder; 0: the file's.
dropout | number 0..0.99 | - | In place of all dropouts of the file.
label_smoothing | number 0..0.99 | 0 | The part of a target that is spread over all classes.
class_weights | numbers 0.. | [] | A weight for each class in the loss.
train_metrics | names metric | (those of the task) | Metrics of training.
eval_metrics | names metric | (those of the task) | Metrics of evaluation.

[model torchscript] A module saved by torch.jit.
path | text 1.. | required | The file.
task | one of classifier, language_model, custom | custom | What the module does.
loss | one of default, module, cross_entropy, binary_cross_entropy_with_logits, mse_loss, l1_loss, nll_loss | default | The loss; default: the module's own if it has one.
num_classes | int 1..16777216 | - | Checked when given.
train_metrics | names metric | (those of the task) | Metrics of training.
eval_metrics | names metric | (those of the task) | Metrics of evaluation.
)";

}  // namespace composer
