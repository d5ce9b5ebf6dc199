// Algorithms.
// SPDX-License-Identifier: Apache-2.0
#include "config/keys/tables.h"

namespace composer {

const char kAlgorithmKeys[] = R"(
[algorithm blurpool] Smooths what strided convolutions and max pools sample.
replace_convs | bool | true | Of strided convolutions.
replace_maxpools | bool | true | Of max pools.
blur_first | bool | true | Blurs before the convolution; false: after one with stride 1, which costs more.
min_channels | int 0.. | 16 | Convolutions with fewer input channels stay.

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

[algorithm gradient_clipping] Bounds the gradients before the update.
clipping_type | one of norm, value, adaptive | required | By the norm of all, element by element, or row by row against the weights.
clipping_threshold | number 0.. | required | The bound.

[algorithm label_smoothing] Targets between the given ones and a uniform distribution over the classes.
smoothing | number 0..1 | 0.1 | The part of the uniform distribution.

[algorithm layer_freezing] Freezes the layers one after the other, from the first on.
freeze_start | number 0..0.999 | 0.5 | The part of the run before freezing begins.
freeze_level | number 0..1 | 1.0 | The part of the layers that is frozen at the end.

[algorithm mixup] Sums of two samples and of their targets.
alpha | number 0.. | 0.2 | The parameter of the Beta distribution of their parts.
interpolate_loss | bool | false | Mixes losses instead of targets.

[algorithm progressive_resizing] Trains on smaller images first.
mode | one of resize, crop | resize | How they become smaller.
initial_scale | number 0..1 | 0.5 | Of the smallest.
finetune_fraction | number 0..1 | 0.2 | The part of the run at its end with whole images.
delay_fraction | number 0..1 | 0.5 | The part of the run at its beginning with the smallest.
size_increment | int 1.. | 4 | Widths are multiples of it.
resize_targets | bool | false | Targets are images, too.

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

[algorithm low_precision_layernorm] LayerNorm in autocast's type.
apply_at | one of init, before_load, after_load | init | Makes no difference: always when the model is made.

[algorithm squeeze_excite] Weights for the channels of convolutions, computed from their means.
latent_channels | number 1e-6.. | 64 | Hidden units; below 1 a share of the channels.
min_channels | int 0.. | 128 | Convolutions with fewer input or output channels stay.
)";

}  // namespace composer
