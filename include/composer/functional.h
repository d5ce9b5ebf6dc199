// What algorithms and models are made of, as functions: composer.functional.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trainer/algorithms/augment/colout.h"
#include "trainer/algorithms/augment/cutmix.h"
#include "trainer/algorithms/augment/cutout.h"
#include "trainer/algorithms/augment/label_smoothing.h"
#include "trainer/algorithms/augment/mixup.h"
#include "trainer/algorithms/optimisation/selective_backprop.h"
#include "trainer/algorithms/schedule/layer_freezing.h"
#include "trainer/algorithms/schedule/progressive_resizing.h"
#include "trainer/algorithms/schedule/seq_length_warmup.h"
#include "trainer/loss/binary_cross_entropy.h"
#include "trainer/loss/cross_entropy.h"
#include "trainer/loss/dice_loss.h"
#include "trainer/models/initializers.h"
#include "trainer/models/sampling.h"
#include "trainer/parallel/norms/adaptive_clipping.h"
#include "trainer/parallel/norms/gradient_norm.h"
