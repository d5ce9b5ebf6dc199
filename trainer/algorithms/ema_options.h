// The arguments of EMA as users give them, and what follows from them. Pure.
// Source: mosaicml composer/algorithms/ema/ema.py. Mended: there `smoothing` also needs `half_life: null`, and without
// `update_interval` it fails on an attribute that it lacks.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "absl/status/statusor.h"
#include "base/time.h"

namespace composer {

struct EmaArguments {
  // At most one of the two. half_life: in ba or ep, after which what a step added weighs half. smoothing: in (0, 1).
  // Neither: a half_life of 1000ba.
  std::optional<Time> half_life;
  std::optional<double> smoothing;
  // From here on there is an average: iter, ep, ba, sp, tok, dur (a share of max_duration) or sec.
  Time ema_start = Time::Duration(0);
  // Not given: 1 of half_life's unit, 1ba with smoothing. ba or ep; half_life's unit.
  std::optional<Time> update_interval;
};

struct EmaOptions {
  double smoothing = 0;  // 2^(-update_interval / half_life), or as given
  Time ema_start = Time::Duration(0);
  Time update_interval = Time::Batches(1);
};

// kInvalidArgument that names the argument, its value and what is allowed.
absl::StatusOr<EmaOptions> ResolveEma(const EmaArguments& arguments);

// Is the run where its average begins? max_duration: not 0.
bool EmaIsDue(const Time& ema_start, const Timestamp& now, const Time& max_duration);

}  // namespace composer
