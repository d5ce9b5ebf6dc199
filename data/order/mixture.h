// Which source each place of a mixture is of, in exact proportions, by arithmetic.
//
// Weights are made whole numbers w_i with the sum P. The sequence has a period of P places, of which w_i are of source
// i, spread evenly: each place goes to the source that is farthest behind its share. Place p is the k-th of its source,
// where k counts from the beginning of the run; so every source is served in its own order without gaps or repeats,
// also where the weights change at a given place.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace composer {

// Weights from a place of the run on.
struct MixtureChange {
  int64_t at = 0;
  std::vector<double> weights;  // of each source, positive
};

struct MixturePlace {
  size_t source = 0;
  int64_t number = 0;  // of the source's samples, from the beginning of the run
};

// A value, thread-safe.
class Mixture {
 public:
  // The first change is at 0, and the others are behind each other. kInvalidArgument names what is wrong. Weights with
  // up to six digits behind the point are met exactly where their sum allows a period of up to 2^20 places, others to
  // one in 10^6.
  static absl::StatusOr<Mixture> Create(absl::Span<const MixtureChange> changes);
  MixturePlace At(int64_t place) const;

 private:
  struct Part {
    int64_t at = 0;
    std::vector<int64_t> before;    // each source's samples before it
    std::vector<int64_t> weights;   // in a period
    std::vector<uint32_t> sources;  // of each place of a period
    std::vector<uint32_t> numbers;  // of that source, in the period
    MixturePlace Within(int64_t place) const;
    int64_t CountBefore(size_t source, int64_t place) const;
  };
  static absl::StatusOr<Part> MakePart(const MixtureChange& change);

  std::vector<Part> parts_;
};

}  // namespace composer
