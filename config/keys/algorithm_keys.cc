// Algorithms.
// SPDX-License-Identifier: Apache-2.0
#include "config/keys/tables.h"

namespace composer {

const char kAlgorithmKeys[] = R"(
[algorithm ema] An exponential moving average of the weights.
half_life | time >0 | (1000ba, without smoothing) | Time in which a weight's part halves.
smoothing | number 0..1 | - | The part that stays at an update; instead of half_life.
ema_start | time >=0 | 0.0dur | When it begins.
update_interval | time >0 | (1 of the unit of half_life) | Time between updates.

[algorithm gradient_clipping] Bounds the gradients before the update.
clipping_type | one of norm, value, adaptive | required | By the norm of all, element by element, or row by row against the weights.
clipping_threshold | number 0.. | required | The bound.

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
)";

}  // namespace composer
