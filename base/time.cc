// SPDX-License-Identifier: Apache-2.0
#include "base/time.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/format/json.h"
#include "base/json_members.h"
#include "base/log.h"

namespace composer {
namespace {

constexpr std::array<absl::string_view, 7> kUnitNames = {"iter", "ep", "ba", "sp", "tok", "dur", "sec"};
constexpr size_t kLongestText = 64;

absl::Status BadTime(absl::string_view text, absl::string_view why) {
  return absl::InvalidArgumentError(absl::StrCat("time `", text, "`: ", why,
                                                 "; write a number and one of iter, ep, ba, sp, tok, dur, sec "
                                                 "(\"10ep\", \"0.5dur\") or a wall-clock time (\"1h30m\")"));
}

// Converts "1h30m", "90m", "1h2m3s" to seconds; nullopt when the text is not of that form. Each unit may appear once,
// in descending order.
std::optional<int64_t> ParseWallClock(absl::string_view text) {
  constexpr std::array<std::pair<char, int64_t>, 4> kParts = {{{'d', 86400}, {'h', 3600}, {'m', 60}, {'s', 1}}};
  int64_t seconds = 0;
  size_t next_part = 0;
  bool any = false;
  while (!text.empty()) {
    size_t digits = 0;
    while (digits < text.size() && absl::ascii_isdigit(static_cast<unsigned char>(text[digits]))) ++digits;
    int64_t number = 0;
    if (digits == 0 || digits == text.size() || digits > 9 || !absl::SimpleAtoi(text.substr(0, digits), &number))
      return std::nullopt;
    while (next_part < kParts.size() && kParts[next_part].first != text[digits]) ++next_part;
    if (next_part == kParts.size()) return std::nullopt;
    seconds += number * kParts[next_part++].second;
    text.remove_prefix(digits + 1);
    any = true;
  }
  return any ? std::optional<int64_t>(seconds) : std::nullopt;
}

// Converts "1_000" to "1000", as Python reads numbers: an underscore may stand between two digits.
std::string WithoutGroups(absl::string_view number) {
  const auto digit_at = [number](size_t i) {
    return i < number.size() && absl::ascii_isdigit(static_cast<unsigned char>(number[i]));
  };
  std::string result;
  for (size_t i = 0; i < number.size(); ++i) {
    if (number[i] == '_' && i > 0 && digit_at(i - 1) && digit_at(i + 1)) continue;
    result += number[i];
  }
  return result;
}

std::optional<TimeUnit> UnitNamed(absl::string_view name) {
  for (size_t i = 0; i < kUnitNames.size(); ++i) {
    if (kUnitNames[i] == name) return static_cast<TimeUnit>(i);
  }
  return std::nullopt;
}

}  // namespace

absl::string_view TimeUnitName(TimeUnit unit) { return kUnitNames[static_cast<size_t>(unit)]; }

std::string Time::ToString() const {
  if (unit_ == TimeUnit::kDuration) return absl::StrCat(value_, "dur");
  return absl::StrCat(count(), TimeUnitName(unit_));
}

absl::StatusOr<Time> ParseTime(absl::string_view text, TimeUnit bare_unit) {
  if (text.size() > kLongestText) return BadTime(absl::StrCat(text.substr(0, kLongestText), "…"), "too long");
  const std::string folded = absl::AsciiStrToLower(absl::StripAsciiWhitespace(text));
  if (const auto seconds = ParseWallClock(folded)) return Time::Seconds(*seconds);
  size_t letters = folded.size();
  while (letters > 0 && absl::ascii_isalpha(static_cast<unsigned char>(folded[letters - 1]))) --letters;
  const std::string number_text = WithoutGroups(absl::StripAsciiWhitespace(folded.substr(0, letters)));
  const std::string unit_text = folded.substr(letters);
  std::optional<TimeUnit> unit = unit_text.empty() ? bare_unit : UnitNamed(unit_text);
  if (!unit.has_value()) return BadTime(text, absl::StrCat("`", unit_text, "` is not a unit"));
  double number = 0;
  const bool decimal = number_text.find_first_not_of("0123456789+-.e") == std::string::npos;  // SimpleAtod accepts 0x10
  if (!decimal || !absl::SimpleAtod(number_text, &number)) return BadTime(text, "no number");
  if (!std::isfinite(number)) return BadTime(text, "too large");
  if (*unit == TimeUnit::kDuration) return Time::Duration(number);
  if (number != std::floor(number)) return BadTime(text, "a fraction of a counted unit");
  if (std::abs(number) > Time::kLargestCount) return BadTime(text, "too large");
  return Time(static_cast<int64_t>(number), *unit);
}

void Timestamp::ToNextBatch(int64_t samples, int64_t tokens, absl::Duration duration) {
  ++batch, ++batch_in_epoch;
  sample += samples, sample_in_epoch += samples;
  token += tokens, token_in_epoch += tokens, token_in_iteration += tokens;
  total_wct += duration, iteration_wct += duration, epoch_wct += duration;
  batch_wct = duration;
}

void Timestamp::ToNextEpoch(absl::Duration duration) {
  ++epoch, ++epoch_in_iteration;
  batch_in_epoch = sample_in_epoch = token_in_epoch = 0;
  total_wct += duration, iteration_wct += duration;
  epoch_wct = batch_wct = absl::ZeroDuration();
}

void Timestamp::ToNextIteration(absl::Duration duration) {
  ++iteration;
  total_wct += duration;
  epoch_in_iteration = token_in_iteration = 0;
  batch_in_epoch = sample_in_epoch = token_in_epoch = 0;
  iteration_wct = epoch_wct = batch_wct = absl::ZeroDuration();
}

int64_t Timestamp::Get(TimeUnit unit) const {
  switch (unit) {
    case TimeUnit::kIteration:
      return iteration;
    case TimeUnit::kEpoch:
      return epoch;
    case TimeUnit::kBatch:
      return batch;
    case TimeUnit::kSample:
      return sample;
    case TimeUnit::kToken:
      return token;
    case TimeUnit::kSecond:
      return absl::ToInt64Seconds(total_wct);
    case TimeUnit::kDuration:
      break;
  }
  LOG(FATAL) << "a timestamp has no count in dur";
}

namespace {

// These tables serve both directions.
struct CountField {
  const char* name;
  int64_t Timestamp::* member;
};
struct ClockField {
  const char* name;
  absl::Duration Timestamp::* member;
};
constexpr CountField kCounts[] = {{"iteration", &Timestamp::iteration},
                                  {"epoch", &Timestamp::epoch},
                                  {"batch", &Timestamp::batch},
                                  {"sample", &Timestamp::sample},
                                  {"token", &Timestamp::token},
                                  {"epoch_in_iteration", &Timestamp::epoch_in_iteration},
                                  {"token_in_iteration", &Timestamp::token_in_iteration},
                                  {"batch_in_epoch", &Timestamp::batch_in_epoch},
                                  {"sample_in_epoch", &Timestamp::sample_in_epoch},
                                  {"token_in_epoch", &Timestamp::token_in_epoch}};
constexpr ClockField kClocks[] = {{"total_wct", &Timestamp::total_wct},
                                  {"iteration_wct", &Timestamp::iteration_wct},
                                  {"epoch_wct", &Timestamp::epoch_wct},
                                  {"batch_wct", &Timestamp::batch_wct}};

}  // namespace

std::string Timestamp::ToJson() const {
  nlohmann::ordered_json json;
  for (const CountField& field : kCounts) json[field.name] = this->*field.member;
  for (const ClockField& field : kClocks) json[field.name] = absl::ToDoubleSeconds(this->*field.member);
  return json.dump();
}

absl::StatusOr<Timestamp> Timestamp::FromJson(absl::string_view text) {
  const auto json = ParseJson(text);
  if (!json.is_object()) return absl::InvalidArgumentError("timestamp: not a JSON object");
  Timestamp result;
  for (const CountField& field : kCounts) {
    if (!TakeMember(json, field.name, result.*field.member))
      return absl::InvalidArgumentError(absl::StrCat("timestamp: ", field.name, " is missing or no count"));
  }
  for (const ClockField& field : kClocks) {
    double seconds = 0;
    if (!TakeMember(json, field.name, seconds))
      return absl::InvalidArgumentError(absl::StrCat("timestamp: ", field.name, " is missing or no number"));
    result.*field.member = absl::Seconds(seconds);
  }
  return result;
}

double ElapsedFraction(const Timestamp& now, const Time& max_duration) {
  CHECK(max_duration.unit() != TimeUnit::kDuration && max_duration.value() > 0) << max_duration.ToString();
  return std::min(1.0, static_cast<double>(now.Get(max_duration.unit())) / max_duration.value());
}

Time CountedInterval(const Time& interval, const Time& max_duration, int64_t batches_per_epoch) {
  if (interval.unit() != TimeUnit::kDuration) return interval;
  const bool epochs = max_duration.unit() == TimeUnit::kEpoch;
  const double whole = max_duration.value() * (epochs ? static_cast<double>(batches_per_epoch) : 1);
  return Time(static_cast<int64_t>(std::ceil(interval.value() * whole)),
              epochs ? TimeUnit::kBatch : max_duration.unit());
}

bool IntervalCrossed(const Time& interval, const Timestamp& previous, const Timestamp& now) {
  if (interval.value() <= 0) return false;
  const int64_t step = interval.count();
  return previous.Get(interval.unit()) / step != now.Get(interval.unit()) / step;
}

}  // namespace composer
