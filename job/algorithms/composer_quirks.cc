// SPDX-License-Identifier: Apache-2.0
#include "job/algorithms/composer_quirks.h"

#include <algorithm>
#include <utility>

#include "trainer/algorithms/augment/pair_mixing.h"
#include "trainer/algorithms/optimisation/gradient_clipping.h"
#include "trainer/algorithms/surgery/gyro_dropout.h"

namespace composer {
namespace {

constexpr int kBehindDefaults = 3;

// Reverses what the first two defaults have made of the list, which the third one reversed only between its ends.
AlgorithmList ReverseWithEnds(AlgorithmList list, Event event) {
  if (!IsAfterEvent(event)) return list;
  std::reverse(list.begin(), list.end());
  list = SortLowPrecisionLayerNormLast(SortSelectiveBackpropFirst(std::move(list), event), event);
  std::reverse(list.begin(), list.end());
  return list;
}

}  // namespace

void UseComposersQuirks(Algorithm& algorithm) {
  if (auto* mixing = dynamic_cast<PairMixing*>(&algorithm)) mixing->MixWithinMicrobatches();
  if (auto* clipping = dynamic_cast<GradientClipping*>(&algorithm)) clipping->ScaleShardedByLargest();
  if (auto* gyro = dynamic_cast<GyroDropout*>(&algorithm)) gyro->ReadDurationAsEpochs();
}

PlacedPass ComposersOrderAfter() { return {ReverseWithEnds, kBehindDefaults}; }

}  // namespace composer
