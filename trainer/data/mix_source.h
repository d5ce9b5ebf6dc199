// Samples of several sources in exact proportions.
//
// Which source a place of the run is of, and the how-many-th of it, is arithmetic (data/order/mixture.h); each source
// is served in its own order, pass after pass. An epoch is only a number of places: a source with a large weight comes
// several times in it, one with a small weight goes on in the next. The sequence depends neither on ranks nor on the
// batch size, and where the weights change, every source goes on where it was.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "data/order/mixture.h"
#include "trainer/core/dataset.h"

namespace composer {

struct MixedSource {
  std::shared_ptr<const SampleSource> source;  // of known size
  double weight = 1;
  // Of this source's samples, before those of the mixture. What they draw is the same in each pass.
  std::vector<std::shared_ptr<const SampleTransform>> transforms;
};

struct MixOptions {
  std::optional<int64_t> epoch_size;   // samples; none: as many as all sources' passes have
  std::vector<MixtureChange> changes;  // of the weights, at samples of the run
  uint64_t seed = 0;                   // of the sources' orders and of what their transforms draw
};

// kInvalidArgument says what is wrong with sources or weights.
absl::StatusOr<std::shared_ptr<const SampleSource>> MixSources(std::vector<MixedSource> sources,
                                                               const MixOptions& options);

}  // namespace composer
