// How worlds are numbered. Pure.
//
// Two worlds of a job must never have the same number, even when several coordinators served it that knew nothing of
// each other: killed and started again, or on the two sides of a partitioned network. Each coordinator process
// therefore numbers the worlds that it forms in a range of its own, which begins at a random place beyond everything it
// knows of:
//
//   the job's first coordinator              1, 2, 3, …
//   one that follows a world of another      (n + 1) · 1,000,000 + random, and upwards; n: the last one's millions
//
// A larger number is a newer world as far as anybody could know. Two processes that follow the same world choose the
// same number with a probability of 1 in a million.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace composer {

// No larger numbers are assigned; bounds what a peer says of itself.
inline constexpr uint64_t kMaxGeneration = 1'000'000'000'000'000;

struct Numbering {
  uint64_t random = 0;       // one per process
  bool may_be_first = true;  // false if whoever started this process knows of another one that served this job before
};

// Returns the number of the next world. `last`: the newest known world, 0 for none; `own`: this process formed it.
uint64_t NextGeneration(uint64_t last, bool own, const Numbering& numbering);

}  // namespace composer
