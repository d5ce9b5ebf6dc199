// The numbers of worlds. Pure.
//
// Two worlds of a job must never have one number, also when several coordinators served it that knew nothing of each
// other: killed and started again, or on the two sides of a cut network. So each process of a coordinator numbers the
// worlds that it forms in a range of its own, which begins at a random place behind all that it knows of:
//
//   the job's first coordinator              1, 2, 3, …
//   one that follows a world of another      (n + 1) · 1,000,000 + random, and on from there; n: millions of the last one
//
// A larger number is a newer world as far as anybody could know. Two processes that follow the same world choose the same
// number with a probability of 1 in a million.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace composer {

// Larger numbers are nobody's: what a peer says of itself is bounded by it.
inline constexpr uint64_t kMaxGeneration = 1'000'000'000'000'000;

struct Numbering {
  uint64_t random = 0;       // of this process
  bool may_be_first = true;  // no other process served this job before, as far as whoever started this one knows
};

// `last`: the newest known world, 0: none; `own`: this process formed it.
uint64_t NextGeneration(uint64_t last, bool own, const Numbering& numbering);

}  // namespace composer
