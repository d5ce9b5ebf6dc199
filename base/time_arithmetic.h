// Arithmetic on training times: Composer's rules, with a status where Composer raises.
//
// Two amounts must have the same unit, since only a run could say how many batches an epoch has; otherwise
// kInvalidArgument names both, as it does for a division by zero and for a result that is not a number or is beyond
// 2^53. Counts are whole: a fraction is truncated towards zero, as by Python's int(); kDuration keeps it.
// There are no operators: they could only throw or abort, and the operands are often a user's. Time's == is the
// exception; it is false for different units, where Composer raises.
// Source: mosaicml composer/core/time.py, Time. Golden: tests/golden/time.json.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "absl/status/statusor.h"
#include "base/time.h"

namespace composer {

absl::StatusOr<Time> Add(const Time& a, const Time& b);
absl::StatusOr<Time> Subtract(const Time& a, const Time& b);
// Returns a - b * floor(a / b), which has b's sign, like Python's %.
absl::StatusOr<Time> Remainder(const Time& a, const Time& b);
// Returns a / b of the same unit, in kDuration: 4ep of 8ep are 0.5dur.
absl::StatusOr<Time> Divide(const Time& a, const Time& b);
// Returns a share of a, in a's unit: 9ba / 2 is 4ba.
absl::StatusOr<Time> Divide(const Time& a, double by);
absl::StatusOr<Time> Multiply(const Time& a, double by);
// One of the two must be kDuration; the result has the other's unit: 0.33dur of 100ba are 33ba.
absl::StatusOr<Time> Multiply(const Time& a, const Time& b);
// Returns a negative number, 0 or a positive one when a is less than, equal to or more than b.
absl::StatusOr<int> Compare(const Time& a, const Time& b);

}  // namespace composer
