// Passes determine the order in which the algorithms that match an event are applied. The defaults, in this order, are:
//
//   1  SelectiveBackprop first: it ranks samples by a loss that nothing has touched yet
//   2  LowPrecisionLayerNorm last: it converts what the others added, too
//   3  first in, last out on every AFTER_* event: what BEFORE_* did last is undone first
//
// The user's own passes are placed among them by index. This fixes a bug of mosaicml, which reverses the whole list in
// 3, also on AFTER_DATALOADER (the event of SelectiveBackprop) and AFTER_LOAD, so that SelectiveBackprop comes last
// there and LowPrecisionLayerNorm first, against the stated intent of 1 and 2. Here the two keep their ends and the
// others are reversed between them. Source: mosaicml composer/core/passes.py.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/strings/string_view.h"
#include "trainer/core/callback.h"
#include "trainer/core/event.h"

namespace composer {

struct NamedAlgorithm {
  Algorithm* algorithm;
  absl::string_view name;
  size_t index;  // in State::algorithms
};
using AlgorithmList = absl::InlinedVector<NamedAlgorithm, 16>;

// A pass is a pure function that takes the algorithms about to run at this event and returns them reordered (or fewer
// of them). Called at every event at which an algorithm matches.
using AlgorithmPass = std::function<AlgorithmList(AlgorithmList, Event)>;

struct PlacedPass {
  AlgorithmPass pass;
  int index = -1;  // its index in the list as it is when this pass is placed; -1 or past the end: the end
};

AlgorithmList SortSelectiveBackpropFirst(AlgorithmList list, Event event);
AlgorithmList SortLowPrecisionLayerNormLast(AlgorithmList list, Event event);
AlgorithmList SetFiloOrder(AlgorithmList list, Event event);

// Returns the defaults with the user's passes inserted one after the other.
std::vector<AlgorithmPass> WithDefaultPasses(const std::vector<PlacedPass>& placed);

// Returns a warning when several algorithms interpolate the loss, each as if it were alone; "" when at most one does.
std::string LossInterpolationWarning(const AlgorithmList& all);

}  // namespace composer
