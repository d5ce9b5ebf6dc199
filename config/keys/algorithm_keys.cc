// Algorithms.
// SPDX-License-Identifier: Apache-2.0
#include "config/keys/tables.h"

namespace composer {

const char kAlgorithmKeys[] = R"(
[algorithm alternating_flip] Mirrors each image in every second epoch.

[algorithm alibi] Linear biases of attention in place of position embeddings.
max_sequence_length | int 1.. | required | Tokens that the model then takes.
train_sequence_length_scaling | number 1e-6.. | 0.25 | Training sequences are cut to this part of their length.

[algorithm augmix] Mixes each training image with chains of operations on it.
severity | int 0..10 | 3 | The strength of the operations.
depth | int -1..1000 | -1 | Operations of a chain; below 1: one to three.
width | int 1..1000 | 3 | Chains.
alpha | number 0.. | 1.0 | The parameter of the distributions of the parts; above 0.
augmentation_set | one of all, safe, original | all | Which operations; safe: none of ImageNet-C's.

[algorithm blurpool] Smooths what strided convolutions and max pools sample.
replace_convs | bool | true | Of strided convolutions.
replace_maxpools | bool | true | Of max pools.
blur_first | bool | true | Blurs before the convolution; false: after one with stride 1, which costs more.
min_channels | int 0.. | 16 | Convolutions with fewer input channels stay.

[algorithm batch_size_warmup] Trains on a part of each batch first.
start | number 0..1 | 0.125 | The first part.
duration | number 0..1 | 0.1 | The part of the run in which it grows to the whole.

[algorithm cautious_weight_decay] Weight decay only where it points the way that the update goes.

[algorithm channels_last] Lays convolutions' weights out with the channels innermost.

[algorithm colout] Drops rows and columns of images.
p_row | number 0..1 | 0.15 | The part of the rows.
p_col | number 0..1 | 0.15 | The part of the columns.
batch | bool | true | The same ones in all images of a batch; false: drawn for each image.
resize_target | bool or one of auto | auto | Targets lose the same; auto: if they are images of that size.

[algorithm cutmix] Pastes a box of one image into another, and mixes their targets by area.
alpha | number 0.. | 1.0 | The parameter of the Beta distribution of the part that stays.
interpolate_loss | bool | false | Mixes losses instead of targets.
uniform_sampling | bool | false | Each pixel is replaced with the same probability.

[algorithm cutout] Blanks squares of images.
num_holes | int 0.. | 1 | The number of squares.
length | number 0..1 | 0.5 | Their side, as a part of the shorter side of the images.
uniform_sampling | bool | false | Each pixel is blanked with the same probability.

[algorithm ema] An exponential moving average of the weights.
half_life | time >0 | (1000ba, without smoothing) | Time in which a weight's part halves.
smoothing | number 0..1 | - | The part that stays at an update; instead of half_life.
ema_start | time >=0 | 0.0dur | When it begins.
update_interval | time >0 | (1 of the unit of half_life) | Time between updates.

[algorithm factorize] Two layers of low rank in place of a large one.
factorize_convs | bool | true | Of convolutions.
factorize_linears | bool | true | Of linear layers.
min_channels | int 0.. | 256 | Convolutions with fewer input or output channels stay.
latent_channels | number 1e-6.. | 0.25 | The rank; below 1 a share of the channels.
min_features | int 0.. | 256 | Linear layers with fewer inputs or outputs stay.
latent_features | number 1e-6.. | 128 | The rank; below 1 a share of the features.
svd_init | bool | false | Begins with the best approximation of the old weights.

[algorithm fused_layernorm] Another name of low_precision_layernorm.
apply_at | one of init, before_load, after_load | init | Makes no difference: always when the model is made.

[algorithm gated_linear_units] Gated feed-forward networks in transformers.
act_fn | one of gelu, gelu_tanh, relu, silu, sigmoid | (the model's own) | The activation of the gate.
gated_layer_bias | bool | false | The layer in the gate has a bias.
non_gated_layer_bias | bool | false | The other layer has a bias.

[algorithm ghost_batchnorm] Normalises parts of a batch by themselves.
ghost_batch_size | int 1.. | 32 | Samples of a part.

[algorithm gradient_clipping] Bounds the gradients before the update.
clipping_type | one of norm, value, adaptive | required | By the norm of all, element by element, or row by row \
against the weights.
clipping_threshold | number 0.. | required | The bound.

[algorithm gyro_dropout] Dropout with a fixed number of masks.
p | number 0..0.999 | 0.5 | The probability of 0.
sigma | int 1..1048576 | 256 | Masks.
tau | int 1..1048576 | 16 | Masks in use at a time.

[algorithm label_smoothing] Targets between the given ones and a uniform distribution over the classes.
smoothing | number 0..1 | 0.1 | The part of the uniform distribution.

[algorithm layer_freezing] Freezes the layers one after the other, from the first on.
freeze_start | number 0..0.999 | 0.5 | The part of the run before freezing begins.
freeze_level | number 0..1 | 1.0 | The part of the layers that is frozen at the end.

[algorithm lawa] Evaluates and saves the mean of the latest weights.
k | int 1..1000 | 5 | The number of snapshots.
interval | time >0 ba, ep | 1ep | Time between them.
lawa_start | time >=0 | 0dur | No snapshot before.

[algorithm logit_soft_cap] Bounds logits smoothly.
cap | number 1e-6..1e6 | 30 | Their bound.
layer | text | lm_head | The linear layer that makes them, by name.

[algorithm mixup] Sums of two samples and of their targets.
alpha | number 0.. | 0.2 | The parameter of the Beta distribution of their parts.
interpolate_loss | bool | false | Mixes losses instead of targets.

[algorithm no_op_model] A model of one weight, to measure the data.

[algorithm progressive_resizing] Trains on smaller images first.
mode | one of resize, crop | resize | How they become smaller.
initial_scale | number 0..1 | 0.5 | Of the smallest.
finetune_fraction | number 0..1 | 0.2 | The part of the run at its end with whole images.
delay_fraction | number 0..1 | 0.5 | The part of the run at its beginning with the smallest.
size_increment | int 1.. | 4 | Widths are multiples of it.
resize_targets | bool | false | Targets are images, too.

[algorithm progressive_layer_dropping] Leaves out whole blocks, more and more of them.
theta | number 0..1 | 0.5 | The probability of the deepest block in the end.
gamma | number 0.. | 100 | How fast it falls to that.

[algorithm qk_norm] Normalises queries and keys of attention.
eps | number 0.. | 1e-6 | Added to the mean square.

[algorithm randaugment] Changes each training image by operations drawn at random.
severity | int 0..10 | 9 | Their strength.
depth | int 0..1000 | 2 | Operations of an image.
augmentation_set | one of all, safe, original | all | Which operations; safe: none of ImageNet-C's.

[algorithm relu_squared] The square of ReLU as the activation.
replace | texts | ["gelu"] | Which activations: gelu, relu, silu.

[algorithm sam] Sharpness-aware minimisation: the gradient is taken where the loss near the weights is highest.
rho | number 0.. | 0.05 | How far away.
epsilon | number 0.. | 1e-12 | Added to the norm of the gradient.
interval | int 1.. | 1 | Every so many steps; the others are ordinary.

[algorithm selective_backprop] Trains only on the samples that the model finds hard.
start | number 0..1 | 0.5 | From this part of the run.
end | number 0..1 | 0.9 | To this part of the run.
keep | number 0..1 | 0.5 | The part of the samples that stays.
scale_factor | number 0..1 | 1.0 | Images are made smaller by it for the first pass.
interrupt | int 0.. | 2 | Every so many batches one is whole; 0: none.

[algorithm seq_length_warmup] Trains a language model on shorter sequences first.
duration | number 0..1 | 0.3 | The part of the run with shorter ones.
min_seq_length | int 1.. | 8 | The first length.
max_seq_length | int 1.. | 1024 | The last length.
step_size | int 1.. | 8 | Lengths grow by it.
truncate | bool | true | Cuts off what is longer; false: cuts it into more sequences.
preserve_end_of_sequence | bool | false | The last token of a sequence, by attention_mask, stays its last.

[algorithm lora] Trains two thin matrices beside linear layers in place of their weights.
target_modules | texts | (required without adapter) | Linear layers by name, end of name or pattern, or all-linear.
r | int 1..65536 | 8 | The rank of the matrices.
lora_alpha | number 1e-6.. | 8 | The scale of their product, times r.
lora_dropout | number 0..0.999 | 0 | The probability of dropout in front of them.
use_rslora | bool | false | Divides lora_alpha by the root of r.
modules_to_save | texts | [] | Layers that are trained whole, such as a new head.
adapter | text | - | A folder in PEFT's format to begin with, which says everything but the dropout.

[algorithm low_precision_groupnorm] GroupNorm in autocast's type.
apply_at | one of init, before_load, after_load | init | Makes no difference: always when the model is made.

[algorithm low_precision_layernorm] LayerNorm in autocast's type.
apply_at | one of init, before_load, after_load | init | Makes no difference: always when the model is made.

[algorithm squeeze_excite] Weights for the channels of convolutions, computed from their means.
latent_channels | number 1e-6.. | 64 | Hidden units; below 1 a share of the channels.
min_channels | int 0.. | 128 | Convolutions with fewer input or output channels stay.

[algorithm stochastic_depth] Drops the branches of residual blocks in training.
target_layer_name | one of ResNetBasicBlock, ResNetBottleneck | required | The kind of block.
stochastic_method | one of block, sample | block | Drops a block for the microbatch, or for each sample.
drop_rate | number 0..1 | 0.2 | The probability, of the last block.
drop_distribution | one of linear, uniform | linear | Grows with the depth, or is the same for all blocks.
drop_warmup | number 0..1 or time >=0 dur | 0.0dur | The part of the run in which the probability grows from 0.

[algorithm swa] The mean of the weights of the last part of a run.
swa_start | time >=0 dur, ep | 0.7dur | When it begins.
swa_end | time >0 dur, ep | 0.97dur | When it takes the place of the weights; in the unit of swa_start.
update_interval | time >0 ba, ep | 1ep | Time between updates.
schedule_swa_lr | bool | false | Takes the learning rate to swa_lr.
anneal_strategy | one of linear, lin, cos, cosine | linear | How.
anneal_steps | int 1.. | 10 | In so many updates.
swa_lr | number 0.. | (the learning rate at swa_start) | The last learning rate.

[algorithm value_embeddings] Adds a vector that the token itself chooses to attention's values.
num_layers | int 1.. | 3 | Of the first and of the last layers.

[algorithm weight_standardization] Convolutions with weights of mean 0 and variance 1.
n_last_layers_ignore | int 0.. | 0 | The last convolutions, which stay.

[algorithm whitening_conv] A frozen convolution that whitens the images' patches, in front of the first one.
kernel_size | int 1..7 | 2 | The side of a patch.
eps | number 1e-12.. | 5e-4 | Added to the variances.
samples | int 1.. | 1000 | Training images that the filters are computed from.
layer | text | (the first one) | The pattern of the convolution's name.

[algorithm zero_init] Sets the layers that end residual branches to 0 at the beginning.
layers | texts | ["*.proj", "*.o_proj", "*.c_proj", "*.out_proj", "*.down_proj", "*.w2"] | Patterns of their names.

[algorithm z_loss] The square of the logits' normaliser, as a part of the loss.
weight | number 0..1e6 | 1e-4 | Its weight.
)";

}  // namespace composer
