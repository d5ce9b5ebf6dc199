// Learning-rate schedules: Composer's, then torch's.
// SPDX-License-Identifier: Apache-2.0
#include "config/keys/tables.h"

namespace composer {

const char kSchedulerKeys[] = R"(
[scheduler constant] A constant factor.
alpha | number | 1 | The factor.
t_max | time >0 | 1dur | How long it lasts; then 1.

[scheduler constant_with_warmup] A constant factor, after a warm-up.
alpha | number | 1 | The factor.
t_max | time >0 | 1dur | How long it lasts; then 1.
t_warmup | time >=0 | required | Length of the linear warm-up, in the unit of t_max.
scale_warmup | bool | false | scale_schedule_ratio scales it, too.

[scheduler linear] From alpha_i to alpha_f in a line.
alpha_i | number | 1 | The factor at the beginning.
alpha_f | number | 0 | The factor at the end.
t_max | time >0 | 1dur | Its length.

[scheduler linear_with_warmup] From alpha_i to alpha_f in a line, after a warm-up.
alpha_i | number | 1 | The factor at the beginning.
alpha_f | number | 0 | The factor at the end.
t_max | time >0 | 1dur | Its length.
t_warmup | time >=0 | required | Length of the linear warm-up, in the unit of t_max.
scale_warmup | bool | false | scale_schedule_ratio scales it, too.

[scheduler cosine_annealing] Half a cosine from 1 to alpha_f.
alpha_f | number | 0 | The factor at the end.
t_max | time >0 | 1dur | Its length.

[scheduler cosine_annealing_with_warmup] Half a cosine from 1 to alpha_f, after a warm-up.
alpha_f | number | 0 | The factor at the end.
t_max | time >0 | 1dur | Its length.
t_warmup | time >=0 | required | Length of the linear warm-up, in the unit of t_max.
scale_warmup | bool | false | scale_schedule_ratio scales it, too.

[scheduler polynomial] A power of the time left, from 1 to alpha_f.
power | number | 2 | The power.
alpha_f | number | 0 | The factor at the end.
t_max | time >0 | 1dur | Its length.

[scheduler polynomial_with_warmup] A power of the time left, from 1 to alpha_f, after a warm-up.
power | number | 2 | The power.
alpha_f | number | 0 | The factor at the end.
t_max | time >0 | 1dur | Its length.
t_warmup | time >=0 | required | Length of the linear warm-up, in the unit of t_max.
scale_warmup | bool | false | scale_schedule_ratio scales it, too.

[scheduler exponential] gamma for each period.
gamma | number | 0.1 | The factor of a period.
decay_period | time >0 | 1ep | The period.

[scheduler step] gamma at each step.
gamma | number | 0.1 | The factor of a step.
step_size | time >0 | 1ep | Time between steps.

[scheduler multi_step] gamma at each milestone.
gamma | number | 0.1 | The factor of a milestone.
milestones | times >=0 | [] | The milestones.

[scheduler multi_step_with_warmup] gamma at each milestone, after a warm-up.
gamma | number | 0.1 | The factor of a milestone.
milestones | times >=0 | [] | The milestones.
t_warmup | time >=0 | required | Length of the linear warm-up, in the unit of t_max.
scale_warmup | bool | false | scale_schedule_ratio scales it, too.

[scheduler cosine_annealing_warm_restarts] Cosines that begin again.
t_0 | time >0 | 1ep | Length of the first.
t_mult | number 1.. | 1 | Each next one is so many times as long.
alpha_f | number | 0 | The factor at the end.

[scheduler warmup_stable_decay] A warm-up, then the full rate, then a decay to alpha_f at the end of the run.
alpha_f | number | 0 | The factor at the end.
t_max | time >0 | 1dur | Where the decay ends.
t_decay | time >0 | 0.2dur | Length of the decay, in the unit of t_max.
decay | one of linear, cosine, sqrt | linear | Its form.
t_warmup | time >=0 | (none) | Length of the linear warm-up, in the unit of t_max.
scale_warmup | bool | false | scale_schedule_ratio scales it, too.

[scheduler step_lr] torch's StepLR.
step_size | int 1.. | required | Steps between two changes.
gamma | number | 0.1 | Factor of a change.

[scheduler multi_step_lr] torch's MultiStepLR.
milestones | ints 0.. | required | Steps at which the rate changes.
gamma | number | 0.1 | Factor of a change.

[scheduler constant_lr] torch's ConstantLR.
factor | number 0..1 | 0.3333333333333333 | The factor until total_iters; then 1.
total_iters | int 1.. | 5 | Steps.

[scheduler polynomial_lr] torch's PolynomialLR.
total_iters | int 1.. | 5 | Steps until the rate is 0.
power | number 0.. | 1 | The power of the share of steps that is left.

[scheduler linear_lr] torch's LinearLR.
start_factor | number 0..1 | 0.3333333333333333 | Factor at the beginning.
end_factor | number 0..1 | 1 | Factor at the end.
total_iters | int 1.. | 5 | Steps.

[scheduler exponential_lr] torch's ExponentialLR.
gamma | number | required | Factor of a step.

[scheduler cosine_annealing_lr] torch's CosineAnnealingLR.
T_max | int 1.. | required | Steps of half a cosine.
eta_min | number 0.. | 0 | The smallest learning rate.

[scheduler cosine_annealing_warm_restarts_lr] torch's CosineAnnealingWarmRestarts.
T_0 | int 1.. | required | Steps of the first interval.
T_mult | int 1.. | 1 | Each next one is so many times as long.
eta_min | number 0.. | 0 | The smallest learning rate.

[scheduler cyclic_lr] torch's CyclicLR.
base_lr | number 0.. | required | The smallest learning rate.
max_lr | number 0.. | required | The largest learning rate.
step_size_up | int 1.. | 2000 | Steps in which the rate rises.
step_size_down | int 1.. | (step_size_up) | Steps in which it falls.
mode | one of triangular, triangular2, exp_range | triangular | Cycles stay as high, halve each time, or shrink by \
gamma a step.
gamma | number | 1 | Of exp_range.
cycle_momentum | bool | true | Momentum moves against the rate.
base_momentum | number | 0.8 | The smallest momentum.
max_momentum | number | 0.9 | The largest momentum.

[scheduler one_cycle_lr] torch's OneCycleLR.
max_lr | number 0.. | required | The largest learning rate.
total_steps | int 1.. | (the run's, or epochs and steps_per_epoch) | Steps of the cycle.
epochs | int 1.. | - | With steps_per_epoch: the steps of the cycle.
steps_per_epoch | int 1.. | - | With epochs: the steps of the cycle.
pct_start | number 0..1 | 0.3 | Share of the cycle in which the rate rises.
anneal_strategy | one of cos, linear | cos | The form of its ends.
cycle_momentum | bool | true | Momentum moves against the rate.
base_momentum | number | 0.85 | The smallest momentum.
max_momentum | number | 0.95 | The largest momentum.
div_factor | number | 25 | max_lr divided by it is the first rate.
final_div_factor | number | 10000 | The first rate divided by it is the last rate.
three_phase | bool | false | Fall as it rose, then on to the last rate.

[scheduler reduce_lr_on_plateau] torch's ReduceLROnPlateau.
monitor | text 1.. | loss/train/total | The metric.
mode | one of min, max | min | Whether it is to fall or to rise.
factor | number | 0.1 | Factor of a reduction.
patience | int 0.. | 10 | Steps without improvement before it.
threshold | number | 0.0001 | What counts as an improvement.
threshold_mode | one of rel, abs | rel | Of the best value, or as a difference.
cooldown | int 0.. | 0 | Steps after a reduction in which nothing counts.
min_lr | number | 0 | The smallest learning rate.
eps | number | 1e-8 | A smaller reduction is left out.
)";

}  // namespace composer
