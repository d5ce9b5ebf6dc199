// One canonical node's part of a shuffled epoch, computed piece by piece from any place on.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>

#include "data/order/shuffle.h"
#include "data/order/shuffle_plan.h"

namespace composer {

// Returns the node's places from `place` on. Before the first piece it shuffles what it begins within: a span (py1s,
// py2s), or the spans within 2 * ReachOf(block_size) samples before (py1e); py1br passes over all draws of the part
// before. The plan must outlive it.
std::unique_ptr<NodeSamples> OpenNode(const ShufflePlan& plan, size_t node, int64_t place);

}  // namespace composer
