// SPDX-License-Identifier: Apache-2.0
#include "trainer/callbacks/monitors/throughput.h"

#include "trainer/core/state.h"

namespace composer {

absl::Status Throughput::Run(Event event, State& state, Logger& logger) {
  if (event == Event::kFitStart) {
    samples_ = logger.Intern("throughput/samples_per_sec");
    tokens_ = logger.Intern("throughput/tokens_per_sec");
    count_ = 0;
    return absl::OkStatus();
  }
  const Timestamp& now = state.timestamp;
  const Point newest{now.total_wct, now.sample, now.token};
  ring_[count_++ % ring_.size()] = newest;
  const Point& oldest = ring_[count_ <= ring_.size() ? 0 : count_ % ring_.size()];
  const double seconds = absl::ToDoubleSeconds(newest.time - oldest.time);
  if (count_ < 2 || seconds <= 0) return absl::OkStatus();
  logger.Log(samples_, static_cast<double>(newest.samples - oldest.samples) / seconds);
  const int64_t tokens = newest.tokens - oldest.tokens;
  if (tokens > 0) logger.Log(tokens_, static_cast<double>(tokens) / seconds);
  return absl::OkStatus();
}

}  // namespace composer
