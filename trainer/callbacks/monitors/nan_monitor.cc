// SPDX-License-Identifier: Apache-2.0
#include "trainer/callbacks/monitors/nan_monitor.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "trainer/core/state.h"

namespace composer {

absl::Status NaNMonitor::Run(Event event, State& state, Logger& logger) {
  const double loss = state.step.loss;
  if (std::isfinite(loss)) return absl::OkStatus();
  const bool reduced = state.settings.precision != Precision::kFp32;
  return absl::InvalidArgumentError(
      absl::StrCat("the loss of batch ", state.timestamp.batch + 1, " (epoch ", state.timestamp.epoch, ") is ",
                   std::isnan(loss) ? "NaN" : "infinite", "; try a lower learning rate or a longer warm-up",
                   reduced ? ", precision: fp32" : "", ", and look for bad values in the data"));
}

}  // namespace composer
