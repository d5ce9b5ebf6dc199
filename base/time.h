// Training time: amounts with a unit ("10ep", "500ba", "0.1dur"), and the timestamp of a run.
// Source: mosaicml composer/core/time.py. Texts that parse here and not there, or vice versa, are listed in
// tests/golden/time.json (ours_differ). Arithmetic: time_arithmetic.h.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace composer {

enum class TimeUnit { kIteration, kEpoch, kBatch, kSample, kToken, kDuration, kSecond };

// Returns "iter", "ep", "ba", "sp", "tok", "dur", "sec".
absl::string_view TimeUnitName(TimeUnit unit);

// An amount of training time. Plain value; counts are whole numbers except in kDuration, where 1.0 is the whole run.
class Time {
 public:
  constexpr Time() = default;
  constexpr Time(int64_t count, TimeUnit unit) : value_(static_cast<double>(count)), unit_(unit) {}
  static constexpr Time Iterations(int64_t n) { return Time(n, TimeUnit::kIteration); }
  static constexpr Time Epochs(int64_t n) { return Time(n, TimeUnit::kEpoch); }
  static constexpr Time Batches(int64_t n) { return Time(n, TimeUnit::kBatch); }
  static constexpr Time Samples(int64_t n) { return Time(n, TimeUnit::kSample); }
  static constexpr Time Tokens(int64_t n) { return Time(n, TimeUnit::kToken); }
  static constexpr Time Seconds(int64_t n) { return Time(n, TimeUnit::kSecond); }
  static constexpr Time Duration(double fraction) {
    Time result;
    result.value_ = fraction;
    result.unit_ = TimeUnit::kDuration;
    return result;
  }

  static constexpr double kLargestCount = 9007199254740992.0;  // 2^53: counts of either sign are exact up to here

  constexpr int64_t count() const { return static_cast<int64_t>(value_); }
  constexpr double value() const { return value_; }
  constexpr TimeUnit unit() const { return unit_; }
  // Returns text that parses back: "10ep", "0.25dur".
  std::string ToString() const;

  friend constexpr bool operator==(const Time& a, const Time& b) { return a.unit_ == b.unit_ && a.value_ == b.value_; }

 private:
  double value_ = 0;
  TimeUnit unit_ = TimeUnit::kBatch;
};

// Parses "10ep", "500 ba", "1.5e9tok", "1_000sp", "0.25dur"; wall-clock times "1h30m", "90m", "24h", "90s", "1d12h",
// "30sec"; a bare number is in `bare_unit`. Ignores case and surrounding blanks. kInvalidArgument, with the text and
// the units allowed, for anything else: unknown unit, a fraction of a counted unit, a count beyond 2^53.
absl::StatusOr<Time> ParseTime(absl::string_view text, TimeUnit bare_unit = TimeUnit::kEpoch);

// The position of a run. Samples and tokens are sums over all ranks. The members named _in_epoch and _in_iteration
// count from the start of the current one. Plain value.
struct Timestamp {
  int64_t iteration = 0, epoch = 0, batch = 0, sample = 0, token = 0;
  int64_t epoch_in_iteration = 0, token_in_iteration = 0;
  int64_t batch_in_epoch = 0, sample_in_epoch = 0, token_in_epoch = 0;
  absl::Duration total_wct, iteration_wct, epoch_wct, batch_wct;  // wall-clock time in training, without evaluation

  // Completes a batch: batch_wct becomes its duration, which is added to the other wall-clock members.
  void ToNextBatch(int64_t samples, int64_t tokens, absl::Duration duration);
  // Completes an epoch; `duration` is the time spent since its last batch.
  void ToNextEpoch(absl::Duration duration = absl::ZeroDuration());
  // Completes an iteration. Like Composer's, it also resets the epoch's counts, though the epoch does not end: after an
  // iteration of tokens the same epoch begins anew. (Our loop restores them.)
  void ToNextIteration(absl::Duration duration = absl::ZeroDuration());
  // Returns the count in this unit; for kSecond, total_wct in whole seconds. CHECK-fails for kDuration, which needs the
  // run's length.
  int64_t Get(TimeUnit unit) const;

  // ToJson returns one JSON object; wall-clock members end in _wct and are in seconds. FromJson gives kInvalidArgument
  // when anything is missing or not a number.
  std::string ToJson() const;
  static absl::StatusOr<Timestamp> FromJson(absl::string_view json);
};

// Returns now / max_duration in [0, 1]: how much of the run is done. max_duration must not be kDuration or 0.
double ElapsedFraction(const Timestamp& now, const Time& max_duration);

// Converts a kDuration interval to a count, rounded up: that share of max_duration in its unit, or in batches when that
// unit is epochs. Returns other intervals unchanged. Source: mosaicml composer/utils/misc.py,
// create_interval_scheduler().
Time CountedInterval(const Time& interval, const Time& max_duration, int64_t batches_per_epoch);

// Returns whether a multiple of `interval` was crossed between previous and now: floor(previous / interval) !=
// floor(now / interval). Intervals <= 0 never fire. A kDuration interval must go through CountedInterval first.
bool IntervalCrossed(const Time& interval, const Timestamp& previous, const Timestamp& now);

}  // namespace composer
