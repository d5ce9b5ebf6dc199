// What numbers that every rank has of its own are over all ranks: mean, least and greatest.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "absl/types/span.h"

namespace composer {

class Communicator;

struct OverRanks {
  double avg, min, max;
};

// A collective, one all-gather: every rank calls it in the same order with as many numbers, and gets the same answer.
// NaN: this rank does not know its number, and the others' count; all NaN where no rank knows. Null: one rank. Throws
// what the communicator throws.
std::vector<OverRanks> ValuesOverRanks(absl::Span<const double> own, Communicator* communicator);

}  // namespace composer
