// SPDX-License-Identifier: Apache-2.0
#include "trainer/algorithms/surgery/surgery.h"

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "trainer/core/logger.h"
#include "trainer/core/state.h"

namespace composer {

absl::Status Surgery::Apply(Event event, State& state, Logger& logger) {
  Hyperparameters numbers;
  size_t all = 0;
  for (const auto& [kind, count] : LayersOf(*state.model)) {
    numbers.emplace_back(kind, absl::StrCat(count));
    all += count;
  }
  logger.LogHyperparameters(numbers);
  if (all == 0 && state.rank == 0)
    LOG(WARNING) << name() << " has no effect: " << state.model->name() << " has no layer that it replaces";
  return absl::OkStatus();
}

}  // namespace composer
