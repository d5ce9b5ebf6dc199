// The arguments of EMA as users give them, and the options derived from them. Pure.
// Source: mosaicml composer/algorithms/ema/ema.py. Fixed here: in mosaicml's, `smoothing` also needs `half_life: null`,
// and without `update_interval` it fails on a missing attribute.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "absl/status/statusor.h"
#include "base/time.h"

namespace composer {

struct EmaArguments {
  // At most one of the two may be given. half_life, in ba or ep, is the time after which a step's contribution has half
  // its weight. smoothing is in (0, 1). The default is a half_life of 1000ba.
  std::optional<Time> half_life;
  std::optional<double> smoothing;
  // The average begins here: iter, ep, ba, sp, tok, dur (a share of max_duration) or sec.
  Time ema_start = Time::Duration(0);
  // The default is 1 of half_life's unit, or 1ba with smoothing. The unit is ba or ep, and half_life's.
  std::optional<Time> update_interval;
};

struct EmaOptions {
  double smoothing = 0;  // 2^(-update_interval / half_life), or as given
  Time ema_start = Time::Duration(0);
  Time update_interval = Time::Batches(1);
};

// Returns kInvalidArgument that names the argument, its value and what is allowed.
absl::StatusOr<EmaOptions> ResolveEma(const EmaArguments& arguments);

// Returns whether the run has reached the start of its average. max_duration must not be 0.
bool EmaIsDue(const Time& ema_start, const Timestamp& now, const Time& max_duration);

}  // namespace composer
