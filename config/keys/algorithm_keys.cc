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
)";

}  // namespace composer
