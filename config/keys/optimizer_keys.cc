// Optimizers.
// SPDX-License-Identifier: Apache-2.0
#include "config/keys/tables.h"

namespace composer {

const char kOptimizerKeys[] = R"(
[map param_group] Parameters with settings of their own.
pattern | text 1.. | required | fnmatch pattern of their names.
lr | number 0.. | (the optimizer's) | Learning rate.
weight_decay | number 0.. | (the optimizer's) | Weight decay.

[map groups] Keys of every optimizer.
no_decay_on_bias_and_norm | bool | false | No weight decay on biases and norms.
param_groups | list map param_group | [] | Parameters with settings of their own; the first pattern that matches counts.

[map adam] Keys of adam, adamw and decoupled_adamw.
amsgrad | bool | false | The AMSGrad variant.
state_dtype | one of float32, bfloat16 | float32 | Type of the two averages; bfloat16, rounded at random: half the \
memory of the state, CPU only.
in_backward | bool | false | Update each parameter during backward, as soon as its gradient is there, and free the \
gradient; one CPU rank only.
include groups

[optimizer adam] torch's Adam.
lr | number 0.. | 1e-3 | Learning rate.
betas | numbers | [0.9, 0.999] | Decay of the averages of the gradient and of its square.
eps | number | 1e-8 | Added to the denominator.
weight_decay | number 0.. | 0 | Weight decay.
include adam

[optimizer adamw] torch's AdamW.
lr | number 0.. | 1e-3 | Learning rate.
betas | numbers | [0.9, 0.999] | Decay of the averages of the gradient and of its square.
eps | number | 1e-8 | Added to the denominator.
weight_decay | number 0.. | 1e-2 | Weight decay.
include adam

[optimizer decoupled_adamw] Composer's DecoupledAdamW: weight decay does not depend on the learning rate.
lr | number 0.. | 1e-3 | Learning rate.
betas | numbers | [0.9, 0.95] | Decay of the averages of the gradient and of its square.
eps | number | 1e-8 | Added to the denominator.
weight_decay | number 0.. | 1e-5 | Weight decay.
include adam

[optimizer sgd] torch's SGD.
lr | number 0.. | 1e-3 | Learning rate.
momentum | number | 0 | Momentum.
dampening | number | 0 | Dampening of the momentum.
weight_decay | number 0.. | 0 | Weight decay.
nesterov | bool | false | Nesterov's momentum.
include groups

[optimizer decoupled_sgdw] Composer's DecoupledSGDW.
lr | number 0.. | 0.1 | Learning rate.
momentum | number | 0 | Momentum.
dampening | number | 0 | Dampening of the momentum.
weight_decay | number 0.. | 0 | Weight decay.
nesterov | bool | false | Nesterov's momentum.
include groups

[optimizer rmsprop] torch's RMSprop.
lr | number 0.. | 1e-2 | Learning rate.
alpha | number | 0.99 | Decay of the average of the squared gradient.
eps | number | 1e-8 | Added to the denominator.
weight_decay | number 0.. | 0 | Weight decay.
momentum | number | 0 | Momentum.
centered | bool | false | Subtract the average gradient.
include groups

[optimizer adagrad] torch's Adagrad.
lr | number 0.. | 1e-2 | Learning rate.
lr_decay | number | 0 | Decay of the learning rate with the number of updates.
initial_accumulator_value | number | 0 | First value of the sum of squares.
eps | number | 1e-10 | Added to the denominator.
weight_decay | number 0.. | 0 | Weight decay.
include groups

[optimizer adadelta] torch's Adadelta.
lr | number 0.. | 1 | Learning rate.
rho | number | 0.9 | Decay of the averages of squares.
eps | number | 1e-6 | Added below the roots.
weight_decay | number 0.. | 0 | Weight decay.
include groups

[optimizer adamax] torch's Adamax.
lr | number 0.. | 2e-3 | Learning rate.
betas | numbers | [0.9, 0.999] | Decay of the average of the gradient and of its largest size.
eps | number | 1e-8 | Added to the size of the gradient.
weight_decay | number 0.. | 0 | Weight decay.
include groups

[optimizer nadam] torch's NAdam.
lr | number 0.. | 2e-3 | Learning rate.
betas | numbers | [0.9, 0.999] | Decay of the averages of the gradient and of its square.
eps | number | 1e-8 | Added to the denominator.
weight_decay | number 0.. | 0 | Weight decay.
momentum_decay | number | 4e-3 | How fast the momentum reaches its value.
decoupled_weight_decay | bool | false | Weight decay as in AdamW.
include groups

[optimizer radam] torch's RAdam.
lr | number 0.. | 1e-3 | Learning rate.
betas | numbers | [0.9, 0.999] | Decay of the averages of the gradient and of its square.
eps | number | 1e-8 | Added to the denominator.
weight_decay | number 0.. | 0 | Weight decay.
decoupled_weight_decay | bool | false | Weight decay as in AdamW.
include groups

[optimizer asgd] torch's ASGD.
lr | number 0.. | 1e-2 | Learning rate.
lambd | number | 1e-4 | Decay.
alpha | number | 0.75 | Power of the learning rate's decay.
t0 | number | 1e6 | Updates before averaging begins.
weight_decay | number 0.. | 0 | Weight decay.
include groups

[optimizer adafactor] torch's Adafactor: little memory. Not with sharding.
lr | number 0.. | 1e-2 | The largest relative step.
beta2_decay | number | -0.8 | Power of the number of the update in the decay of squares.
eps | numbers | ([the type's, 1e-3]) | Below the squares, and the least size of a parameter.
d | number | 1 | Updates of a larger root mean square are cut to it.
weight_decay | number 0.. | 0 | Weight decay, as in AdamW.
include groups

[optimizer rprop] torch's Rprop, for full batches.
lr | number 0.. | 1e-2 | The first step sizes; schedules have no effect.
etas | numbers | [0.5, 1.2] | Factors of a step size when the gradient turns, and when it does not.
step_sizes | numbers | [1e-6, 50] | Bounds of the step sizes.

[optimizer lbfgs] torch's LBFGS, for full batches; several evaluations of the loss a step.
lr | number 0.. | 1 | Length of a step, or of the line search's first one.
max_iter | int 1.. | 20 | Iterations in a step.
max_eval | int 1.. | (max_iter * 5 / 4) | Evaluations of the loss in a step.
tolerance_grad | number 0.. | 1e-7 | The step ends when the gradient's largest element is at most this.
tolerance_change | number 0.. | 1e-9 | The step ends when loss or parameters change by less.
history_size | int 1.. | 100 | Directions that are remembered; each takes twice the parameters' memory.
line_search_fn | one of none, strong_wolfe | none | The line search.

[optimizer lion] Lion.
lr | number 0.. | 1e-4 | Learning rate.
betas | numbers | [0.9, 0.99] | Of the update, and of the average.
weight_decay | number 0.. | 0 | Weight decay.
include groups

[map muon_adamw] The AdamW of what Muon does not take.
lr | number 0.. | 1e-3 | Learning rate.
betas | numbers | [0.9, 0.999] | Decay of the averages.
eps | number | 1e-8 | Added to the denominator.
weight_decay | number 0.. | 1e-2 | Weight decay.
amsgrad | bool | false | The AMSGrad variant.
patterns | texts | ["*embed*", "*emb.weight", "*wte.weight", "*wpe.weight", "*head.weight"] | Matrices that are \
AdamW's, too.

[map muon_keys] Keys of muon and normuon.
lr | number 0.. | 1e-3 | Learning rate.
weight_decay | number 0.. | 0.1 | Weight decay.
momentum | number | 0.95 | Momentum.
nesterov | bool | true | Nesterov's momentum.
ns_steps | int 0..99 | 5 | Steps of the Newton-Schulz iteration.
ns_coefficients | numbers | [3.4445, -4.775, 2.0315] | Its coefficients.
eps | number | 1e-7 | Added to the norm.
adjust_lr_fn | one of original, match_rms_adamw | original | How the learning rate depends on a matrix's shape.
adamw | map muon_adamw | {} | The AdamW of what Muon does not take.

[optimizer muon] Muon for matrices, AdamW for the rest.
include muon_keys
include groups

[optimizer normuon] Muon whose updates are scaled neuron by neuron.
beta2 | number | 0.95 | Decay of the average of an update's square by row.
include muon_keys
include groups

[optimizer schedule_free_adamw] AdamW without a schedule: evaluates and saves an average that follows along.
lr | number 0.. | 2.5e-3 | Learning rate; warm it up, nothing more.
betas | numbers | [0.9, 0.999] | How near to the average gradients are taken, and the decay of their squares.
eps | number | 1e-8 | Added to the denominator.
weight_decay | number 0.. | 0 | Weight decay.
r | number | 0 | The power of the number of the step in the average's weights.
weight_lr_power | number | 2 | The power of the largest learning rate in them.
include groups
)";

}  // namespace composer
