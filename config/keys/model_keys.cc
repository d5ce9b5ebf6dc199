// Models.
// SPDX-License-Identifier: Apache-2.0
#include "config/keys/tables.h"

namespace composer {

const char kModelKeys[] = R"(
[map classified] Loss and metrics of classifiers, as of ComposerClassifier.
loss_name | one of soft_cross_entropy, cross_entropy, binary_cross_entropy_with_logits, nll_loss, mse_loss, l1_loss, \
dice_loss | soft_cross_entropy | The loss.
class_weights | numbers 0.. | [] | A factor of the loss for each class.
label_smoothing | number 0..1 | 0 | This part of each target is spread over all classes.
loss_reduction | one of mean, sum | mean | The loss is the mean over a microbatch, or the sum.
train_metrics | names metric | (MulticlassAccuracy) | Metrics of training.
eval_metrics | names metric | (MulticlassAccuracy, CrossEntropy) | Metrics of evaluation.

[model mlp] A multilayer perceptron with ReLU, for classification.
sizes | ints 1..16777216 | [64, 64, 64, 10] | Numbers of each layer: features first, classes last.
include classified

[model resnet_small] A small ResNet for images.
in_channels | int 1..16777216 | 1 | Channels of an image.
num_classes | int 1..16777216 | 10 | Classes.
widths | ints 1..16777216 | [16, 32, 64] | Channels of each stage.
blocks | int 1..16777216 | 1 | Blocks of a stage.
stem_stride | int 1..4 | 2 | Stride of the first convolution.
image_size | int 1..16777216 | 28 | Height and width of an image.
include classified

[map initialized] How the weights of models for pictures begin.
initializers | texts | [] | First values: kaiming_normal, kaiming_uniform, xavier_normal, xavier_uniform, bn_uniform, \
bn_ones, linear_log_constant_bias.

[map resnet_body] The residual network of resnet and deeplabv3.
in_channels | int 1..65536 | 3 | Channels of an image.
width | int 1..65536 | 64 | Channels of the first stage.
groups | int 1..65536 | 1 | Groups of a bottleneck's 3x3 convolutions.
width_per_group | int 1..65536 | 64 | Their channels in each group, in the first stage.
zero_init_residual | bool | false | The last norm of each block begins with 0.

[map segmentation] The loss of models that give each pixel a class.
cross_entropy_weight | number 0.. | 1 | The cross-entropy's factor in the loss.
dice_weight | number 0.. | 0 | The Dice loss's factor in the loss.
class_weights | numbers 0.. | [] | A weight for each class in the cross-entropy.
ignore_index | int -65536..65536 | -1 | Pixels with this target do not count.

[model resnet] ResNet as torchvision and timm have it: their names and layouts.
depth | int 1..65536 | 50 | Layers: 18, 34, 50, 101 or 152.
include resnet_body
image_size | int 1..65536 | 224 | Height and width of an image.
num_classes | int 1..65536 | 1000 | Classes.
include initialized
include classified

[model resnet_cifar] Composer's residual networks for small images.
depth | int 1..65536 | 9 | Layers: 9, 20 or 56.
num_classes | int 1..65536 | 10 | Classes.
in_channels | int 1..65536 | 3 | Channels of an image.
width | int 0..65536 | 0 | Channels of the first convolution; 0: 64 for 9 layers, else 16.
image_size | int 1..65536 | 32 | Height and width of an image.
include initialized
include classified

[model efficientnet] EfficientNet (B0) as torchvision has it.
num_classes | int 1..65536 | 1000 | Classes.
in_channels | int 1..65536 | 3 | Channels of an image.
width_mult | number 0.01..16 | 1 | Factor of all channels.
depth_mult | number 0.01..16 | 1 | Factor of the blocks of a stage.
dropout | number 0..0.99 | 0.2 | Dropout before the last layer.
stochastic_depth | number 0..0.99 | 0.2 | Probability of leaving out the last block's branch; less before it.
image_size | int 1..65536 | 224 | Height and width of an image.
include initialized
include classified

[model deeplabv3] DeepLabV3 on a ResNet, as torchvision has it: a class for each pixel.
depth | int 1..65536 | 50 | Layers: 50, 101 or 152.
include resnet_body
image_size | int 1..65536 | 512 | Height and width of an image.
num_classes | int 1..65536 | 21 | Classes.
include segmentation
head_width | int 1..65536 | 256 | Channels of the head.
atrous_rates | ints 1..65536 | [12, 24, 36] | Dilations of the head's branches.
dropout | number 0..0.99 | 0.5 | Dropout in the head.
include initialized

[model unet] The U-Net with batch norms: a class for each pixel.
num_classes | int 1..65536 | 2 | Classes.
include segmentation
in_channels | int 1..65536 | 3 | Channels of an image.
widths | ints 1..65536 | [64, 128, 256, 512, 1024] | Channels of each level.
image_size | int 1..65536 | 256 | Height and width of an image.
include initialized

[map noise_schedule] How pictures become noise in training, and back in sampling; names and defaults are diffusers'.
num_train_timesteps | int 1..1000000 | 1000 | Steps from picture to noise.
beta_schedule | one of linear, scaled_linear, squaredcos_cap_v2 | linear | How the noise of a step grows; Stable \
Diffusion: scaled_linear.
beta_start | number 0.. | 0.0001 | The first step's; Stable Diffusion: 0.00085.
beta_end | number 0.. | 0.02 | The last step's; Stable Diffusion: 0.012.
rescale_betas_zero_snr | bool | false | The last step is nothing but noise.
prediction_type | one of epsilon, sample, v_prediction | epsilon | What the model computes: the noise, the picture, \
or the velocity.
timestep_spacing | one of leading, trailing, linspace | leading | Which steps a sampling takes.
steps_offset | int 0..999999 | 0 | Added to the steps of leading; Stable Diffusion: 1.
set_alpha_to_one | bool | true | DDIM ends at the picture itself; Stable Diffusion: false.
clip_sample | bool | true | Sampling cuts pictures to the range; Stable Diffusion: false.
clip_sample_range | number 0.. | 1 | The largest absolute value of a picture.

[model diffusion_unet] The conditional U-Net of Stable Diffusion, or a small one, with diffusers' names.
in_channels | int 1..65536 | 4 | Channels of pictures or latents.
out_channels | int 1..65536 | 4 | Equal to in_channels.
sample_size | int 1..65536 | 64 | Height and width of pictures that are sampled.
block_out_channels | ints 1..65536 | [320, 640, 1280, 1280] | Channels of each level, from the whole picture down.
down_block_types | texts | [CrossAttnDownBlock2D, CrossAttnDownBlock2D, CrossAttnDownBlock2D, DownBlock2D] | Each \
level on the way down.
mid_block_type | one of UNetMidBlock2DCrossAttn, UNetMidBlock2D | UNetMidBlock2DCrossAttn | The lowest part.
up_block_types | texts | [UpBlock2D, CrossAttnUpBlock2D, CrossAttnUpBlock2D, CrossAttnUpBlock2D] | Each level on the \
way up.
layers_per_block | int 1..65536 | 2 | Residual blocks of a level.
transformer_layers_per_block | int 1..65536 | 1 | Layers of each attention.
attention_head_dim | ints 1..65536 | [8] | Heads of all levels, or of each; Stable Diffusion 2: [5, 10, 20, 20].
cross_attention_dim | int 1..65536 | 1280 | Width of the text; Stable Diffusion 1: 768, 2: 1024.
use_linear_projection | bool | false | Linear layers around attention; Stable Diffusion 2: true.
num_class_embeds | int 0..65536 | 0 | Classes, the last of them for pictures of none; 0: pictures have no classes.
norm_num_groups | int 1..65536 | 32 | Groups of the norms.
norm_eps | number 0.. | 1e-05 | Of the norms.
dropout | number 0..0.99 | 0 | Dropout's probability.
flip_sin_to_cos | bool | true | The embedding of steps begins with cosines.
freq_shift | number 0.. | 0 | Of the embedding of steps.
context_tokens | int 1..65536 | 77 | Tokens of a text, for the count of operations.
scaling_factor | number 0.. | 1 | Factor of the inputs; latents of Stable Diffusion: 0.18215.
conditioning_dropout | number 0..0.99 | 0 | How often a sample is trained without its text and class.
include noise_schedule

[model autoencoder_kl] The variational autoencoder of latent diffusion, with diffusers' names.
path | text | - | A folder with config.json and weights of diffusers' AutoencoderKL; it says the sizes.
pretrained | bool | true | Load the weights of `path`; false: draw them.
in_channels | int 1..65536 | 3 | Channels of pictures.
out_channels | int 1..65536 | 3 | Equal to in_channels.
latent_channels | int 1..65536 | 4 | Channels of latents.
block_out_channels | ints 1..65536 | [128, 256, 512, 512] | Channels of each level, from the whole picture down.
layers_per_block | int 1..65536 | 2 | Residual blocks of a level.
norm_num_groups | int 1..65536 | 32 | Groups of the norms.
scaling_factor | number 0.. | 0.18215 | Factor of the latents, which makes their variance 1.
sample_size | int 1..65536 | 512 | Height and width of a picture, for the count of operations.
kl_weight | number 0.. | 1e-06 | The divergence's factor in the loss.
encode_only | bool | false | Compute scaled latents, for `composer predict`.

[model stable_diffusion_2] Stable Diffusion: a U-Net that is trained behind a frozen autoencoder and text encoder.
path | text | - | A folder of diffusers, with unet, vae, text_encoder and scheduler; without it: version 2's U-Net, \
drawn.
pretrained | bool | true | The U-Net begins with the folder's weights; false: they are drawn.
precomputed_latents | bool | false | The data are scaled latents and hidden states of texts.
prediction_type | one of auto, epsilon, sample, v_prediction | auto | What the U-Net computes; auto: as the folder's \
scheduler says, else epsilon.
rescale_betas_zero_snr | bool | false | The last step is nothing but noise; false: as the folder's scheduler says.
conditioning_dropout | number 0..0.99 | 0 | How often a sample is trained without its text.
sample_size | int 0..65536 | 0 | Height and width of latents that are sampled; 0: the U-Net's.

[model gpt] A GPT with learned positions. Names are llm-foundry's.
n_layers | int 1..16777216 | 4 | Transformer blocks.
n_heads | int 1..16777216 | 4 | Attention heads of a block.
d_model | int 1..16777216 | 128 | Width.
max_seq_len | int 1..16777216 | 128 | Tokens of the longest sample.
vocab_size | int 1..16777216 | 256 | Different tokens.
tie_word_embeddings | bool | true | The output layer has the weights of the embedding.
dropout | number 0..0.99 | 0 | Dropout's probability.
loss_chunk_tokens | int 0..16777216 | 0 | Head and loss run over so many tokens at a time, without whole logits; 0: all.
rule n_heads divides d_model

[model hf] Hugging Face's bert, clip_text_model, gpt2, llama, mistral, mixtral, mpt, qwen2, qwen3, roberta, vit.
path | text | - | The folder, with config.json and weights; without it, `config` says everything.
config | map | - | Fields of config.json, in place of the file's.
pretrained | bool | true | Load the weights; false: draw them.
task | one of auto, masked_lm, sequence_classification, token_classification, features, embedding | auto | An \
encoder's head; auto: that of the file's `architectures`. embedding: vectors of texts, also of decoders.
num_labels | int 0..16777216 | 0 | Labels of a classification; 0: the file's, else 2.
problem_type | one of auto, single_label_classification, multi_label_classification, regression | auto | The loss of \
sequence classification; auto: the file's, regression for one label.
max_seq_len | int 0..16777216 | 0 | The longest input of a decoder; 0: the file's.
dropout | number 0..0.99 | - | In place of all dropouts of the file.
allow_embedding_resizing | bool | false | The job's tokenizer may have more tokens than the model: they get rows in \
its word tables.
label_smoothing | number 0..0.99 | 0 | The part of a target that is spread over all classes.
class_weights | numbers 0.. | [] | A weight for each class in the loss.
pooling | one of mean, cls, last | mean | Of embedding: the mean over a text's tokens, the first, or the last.
normalize | bool | true | Of embedding: vectors have length 1.
temperature | number 1e-06..1000000 | 0.05 | Of embedding: what products of vectors are divided by.
gather_in_batch_negatives | bool | true | Of embedding: a text is distinguished from the texts of all ranks, not only its own \
rank's.
train_metrics | names metric | (those of the task) | Metrics of training.
eval_metrics | names metric | (those of the task) | Metrics of evaluation.
loss_chunk_tokens | int 0..16777216 | 0 | Of decoders: head and loss run over so many tokens at a time; 0: all.

[model torchscript] A module saved by torch.jit.
path | text 1.. | required | The file.
task | one of classifier, language_model, custom | custom | What the module does.
loss | one of default, module, cross_entropy, binary_cross_entropy_with_logits, mse_loss, l1_loss, nll_loss | default \
| The loss; default: the module's own if it has one.
num_classes | int 1..16777216 | - | Checked when given.
train_metrics | names metric | (those of the task) | Metrics of training.
eval_metrics | names metric | (those of the task) | Metrics of evaluation.
)";

}  // namespace composer
