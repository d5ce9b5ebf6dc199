// Collectives of bytes of any length: texts, JSON, whatever one serialises. All ranks of the communicator call them in
// the same order; they throw what the communicator throws. Source: mosaicml composer/utils/dist.py,
// all_gather_object(), broadcast_object_list() and run_local_rank_zero_first(), which pickle.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "trainer/core/communicator.h"

namespace composer {

// Returns each rank's bytes, by rank.
std::vector<std::string> AllGatherBytes(const std::string& own, Communicator& communicator);

// Returns the bytes of rank `root`; those of the others are ignored.
std::string BroadcastBytes(const std::string& own, int root, Communicator& communicator);

// Calls fn on the ranks whose local_rank is 0, then on the others: the first of a node downloads what its neighbours
// then find. An exception of fn is thrown on its own rank once all ranks have passed; ranks that wait for a rank whose
// fn has thrown still call theirs.
void LocalRankZeroFirst(int local_rank, Communicator& communicator, absl::FunctionRef<void()> fn);

}  // namespace composer
