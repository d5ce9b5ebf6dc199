// SPDX-License-Identifier: Apache-2.0
#include "trainer/callbacks/monitors/runtime_estimator.h"

#include <algorithm>

#include "base/saved_numbers.h"
#include "trainer/core/state.h"

namespace composer {
namespace {

// The timestamp counts whole epochs; the batches give the progress between their ends.
double Done(const State& state) {
  double fraction = ElapsedFraction(state.timestamp, state.max_duration);
  if (state.max_duration.unit() == TimeUnit::kEpoch && state.clock.batches_per_epoch > 0) {
    fraction += static_cast<double>(state.timestamp.batch_in_epoch) /
                static_cast<double>(state.clock.batches_per_epoch) / state.max_duration.value();
  }
  return std::min(1.0, fraction);
}

}  // namespace

absl::Status RuntimeEstimator::Run(Event event, State& state, Logger& logger) {
  switch (event) {
    case Event::kFitStart:
      id_ = logger.Intern("time/remaining_estimate");
      seen_ = 0;
      start_.reset();
      if (options_.skip_batches <= 0) start_ = Here(state);
      break;
    case Event::kEvalStart:
      eval_started_ = clock_.Now();
      break;
    case Event::kEvalEnd:
      eval_seconds_ += absl::ToDoubleSeconds(clock_.Now() - eval_started_);
      eval_fraction_ = Done(state);
      break;
    default:
      OnBatchEnd(state, logger);
  }
  return absl::OkStatus();
}

RuntimeEstimator::Point RuntimeEstimator::Here(const State& state) {
  return {Done(state), absl::ToDoubleSeconds(state.timestamp.total_wct)};
}

void RuntimeEstimator::OnBatchEnd(const State& state, Logger& logger) {
  if (!start_.has_value()) {
    if (++seen_ == options_.skip_batches) start_ = Here(state);
    return;
  }
  const Point now = Here(state);
  if (now.fraction <= start_->fraction) return;
  double seconds = (now.seconds - start_->seconds) / (now.fraction - start_->fraction) * (1 - now.fraction);
  if (eval_fraction_ > 0) seconds += std::max(0.0, eval_seconds_ / eval_fraction_ - eval_seconds_);
  logger.Log(id_, seconds / absl::ToDoubleSeconds(options_.time_unit));
}

std::string RuntimeEstimator::SaveState() const {
  return SaveNumbers({{"eval_seconds", eval_seconds_}, {"eval_fraction", eval_fraction_}});
}

absl::Status RuntimeEstimator::LoadState(absl::string_view json) {
  return LoadNumbers(json, {{"eval_seconds", &eval_seconds_}, {"eval_fraction", &eval_fraction_}});
}

}  // namespace composer
