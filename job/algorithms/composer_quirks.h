// What composer_compat changes of the built-in algorithms: where mosaicml 0.32.1 computes something else than what it
// documents or what is meant, and the run's values depend on it, they compute the same. docs/configuration.md has the
// table, with what is not reproduced. Source: mosaicml composer/algorithms, composer/core/passes.py.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trainer/core/callback.h"
#include "trainer/core/passes.h"

namespace composer {

// Makes an algorithm that was just made do as Composer's; one without such a difference stays as it is.
void UseComposersQuirks(Algorithm& algorithm);

// Returns a pass for the place behind the defaults (passes.h) that gives AFTER_* events Composer's order: the whole
// list is reversed, so that LowPrecisionLayerNorm comes first and SelectiveBackprop last.
PlacedPass ComposersOrderAfter();

}  // namespace composer
