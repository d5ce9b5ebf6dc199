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

[algorithm ema] An exponential moving average of the weights.
half_life | time >0 | (1000ba, without smoothing) | Time in which a weight's part halves.
smoothing | number 0..1 | - | The part that stays at an update; instead of half_life.
ema_start | time >=0 | 0.0dur | When it begins.
update_interval | time >0 | (1 of the unit of half_life) | Time between updates.

[algorithm low_precision_layernorm] LayerNorm in autocast's type.
apply_at | one of init, before_load, after_load | init | Makes no difference: always when the model is made.

[algorithm squeeze_excite] Weights for the channels of convolutions, computed from their means.
latent_channels | number 1e-6.. | 64 | Hidden units; below 1 a share of the channels.
min_channels | int 0.. | 128 | Convolutions with fewer input or output channels stay.
)";

}  // namespace composer
