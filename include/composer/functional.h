// What algorithms and models are made of, as functions: composer.functional.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trainer/loss/binary_cross_entropy.h"
#include "trainer/loss/cross_entropy.h"
#include "trainer/loss/dice_loss.h"
#include "trainer/models/initializers.h"
#include "trainer/models/sampling.h"
#include "trainer/parallel/norms/adaptive_clipping.h"
#include "trainer/parallel/norms/gradient_norm.h"
