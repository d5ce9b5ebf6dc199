// When a model's parameters were changed after its optimizer was made, the optimizer is made again and takes over what
// it knew of those that stay. Source: mosaicml composer/utils/module_surgery.py, update_params_in_optimizer().
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trainer/core/optimizer.h"

namespace composer {

// Copies the state of `old` into `made` (Optimizer::state):
//   "<parameter>/<kind>"  of each parameter, the same tensor, that is in a group of both, under whatever name
//   "group0/<kind>"       by parameter if it is a list with an element for each of the group's (counts of steps), else
//   of
//                         the group of that number
// where the shapes agree. Parameters that are new begin with the state of a new optimizer; that of those which are gone
// is left behind.
void TakeState(Optimizer& old, Optimizer& made);

}  // namespace composer
