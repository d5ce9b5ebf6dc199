// SPDX-License-Identifier: Apache-2.0
#include "base/time_arithmetic.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace composer {
namespace {

absl::Status SameUnit(const Time& a, absl::string_view operation, const Time& b) {
  if (a.unit() == b.unit()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("time ", a.ToString(), " ", operation, " ", b.ToString(),
                                                 ": the units differ, and how many ", TimeUnitName(b.unit()),
                                                 " there are to 1", TimeUnitName(a.unit()), " is not known here"));
}

// Returns the value in that unit; `what` says how it came about, for errors.
absl::StatusOr<Time> Result(double value, TimeUnit unit, absl::string_view what) {
  if (!std::isfinite(value))
    return absl::InvalidArgumentError(absl::StrCat("time ", what, ": the result is not a number"));
  if (unit == TimeUnit::kDuration) return Time::Duration(value);
  if (std::abs(value) > Time::kLargestCount)
    return absl::InvalidArgumentError(absl::StrCat("time ", what, ": the result is beyond 2^53"));
  return Time(static_cast<int64_t>(value), unit);
}

std::string Describe(const Time& a, absl::string_view operation, absl::string_view b) {
  return absl::StrCat(a.ToString(), " ", operation, " ", b);
}

}  // namespace

absl::StatusOr<Time> Add(const Time& a, const Time& b) {
  RETURN_IF_ERROR(SameUnit(a, "+", b));
  return Result(a.value() + b.value(), a.unit(), Describe(a, "+", b.ToString()));
}

absl::StatusOr<Time> Subtract(const Time& a, const Time& b) {
  RETURN_IF_ERROR(SameUnit(a, "-", b));
  return Result(a.value() - b.value(), a.unit(), Describe(a, "-", b.ToString()));
}

absl::StatusOr<Time> Remainder(const Time& a, const Time& b) {
  RETURN_IF_ERROR(SameUnit(a, "%", b));
  double rest = std::fmod(a.value(), b.value());  // exact, with a's sign; NaN for b = 0
  if (rest != 0 && (rest < 0) != (b.value() < 0)) rest += b.value();
  return Result(rest, a.unit(), Describe(a, "%", b.ToString()));
}

absl::StatusOr<Time> Divide(const Time& a, const Time& b) {
  RETURN_IF_ERROR(SameUnit(a, "/", b));
  return Result(a.value() / b.value(), TimeUnit::kDuration, Describe(a, "/", b.ToString()));
}

absl::StatusOr<Time> Divide(const Time& a, double by) {
  return Result(a.value() / by, a.unit(), Describe(a, "/", absl::StrCat(by)));
}

absl::StatusOr<Time> Multiply(const Time& a, double by) {
  return Result(a.value() * by, a.unit(), Describe(a, "*", absl::StrCat(by)));
}

absl::StatusOr<Time> Multiply(const Time& a, const Time& b) {
  if (a.unit() != TimeUnit::kDuration && b.unit() != TimeUnit::kDuration) {
    return absl::InvalidArgumentError(
        absl::StrCat("time ", Describe(a, "*", b.ToString()), ": one of the two must be a share of the run (dur)"));
  }
  const TimeUnit unit = b.unit() == TimeUnit::kDuration ? a.unit() : b.unit();
  return Result(a.value() * b.value(), unit, Describe(a, "*", b.ToString()));
}

absl::StatusOr<int> Compare(const Time& a, const Time& b) {
  RETURN_IF_ERROR(SameUnit(a, "compared with", b));
  return a.value() < b.value() ? -1 : a.value() > b.value() ? 1 : 0;
}

}  // namespace composer
