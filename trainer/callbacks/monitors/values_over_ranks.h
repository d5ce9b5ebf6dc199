// The mean, the minimum and the maximum over all ranks of numbers that each rank has.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "absl/types/span.h"

namespace composer {

class Communicator;

struct OverRanks {
  double avg, min, max;
};

// Returns value i of rank r at index r * own.size() + i. The rules below hold.
std::vector<double> ValuesOfAllRanks(absl::Span<const double> own, Communicator* communicator);

// A collective, one all-gather: every rank must call it in the same order with the same number of values, and all get
// the same answer. NaN means that this rank does not know a value; only the other ranks' values count then, and the
// answer is NaN where no rank knows it. A null communicator means one rank. Throws what the communicator throws.
std::vector<OverRanks> ValuesOverRanks(absl::Span<const double> own, Communicator* communicator);

}  // namespace composer
