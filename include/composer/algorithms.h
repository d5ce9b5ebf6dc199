// Algorithms.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trainer/algorithms/augment/colout.h"
#include "trainer/algorithms/augment/cutmix.h"
#include "trainer/algorithms/augment/cutout.h"
#include "trainer/algorithms/augment/label_smoothing.h"
#include "trainer/algorithms/augment/mixup.h"
#include "trainer/algorithms/ema.h"
#include "trainer/algorithms/ema_options.h"
#include "trainer/algorithms/optimisation/gradient_clipping.h"
#include "trainer/algorithms/optimisation/sam.h"
#include "trainer/algorithms/optimisation/selective_backprop.h"
#include "trainer/algorithms/schedule/layer_freezing.h"
#include "trainer/algorithms/schedule/progressive_resizing.h"
#include "trainer/algorithms/schedule/seq_length_warmup.h"
#include "trainer/algorithms/surgery/blur_pool.h"
#include "trainer/algorithms/surgery/low_precision_layer_norm.h"
#include "trainer/algorithms/surgery/squeeze_excite.h"
#include "trainer/algorithms/surgery/surgery.h"
