// SPDX-License-Identifier: Apache-2.0
#include "views/read/metrics_reader.h"

#include <fnmatch.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "views/read/flat_json.h"

namespace composer {
namespace {

constexpr struct {
  absl::string_view key;
  int64_t MetricRow::* member;
} kTimes[] = {
    {"time/epoch", &MetricRow::epoch}, {"time/batch", &MetricRow::batch}, {"time/sample", &MetricRow::sample},
    {"time/token", &MetricRow::token}, {"launch", &MetricRow::launch},    {"generation", &MetricRow::generation},
};

int64_t AsWhole(double number) { return number >= 0 && number < 9e18 ? static_cast<int64_t>(number) : 0; }

}  // namespace

bool IsOriginOfRecord(absl::string_view key) {
  static constexpr absl::string_view kOthers[] = {"wall", "time/batch_in_epoch", "time/sample_in_epoch",
                                                  "time/token_in_epoch"};
  return std::any_of(std::begin(kTimes), std::end(kTimes), [&](const auto& time) { return key == time.key; }) ||
         std::find(std::begin(kOthers), std::end(kOthers), key) != std::end(kOthers);
}

MetricsReader::MetricsReader(Options options) : options_(std::move(options)), follower_(options_.path) {}

void MetricsReader::Clear() {
  rows_.clear();
  series_.clear();
  by_place_.clear();
  known_.clear();
  points_ = bad_lines_ = 0;
  full_ = false;
}

absl::Status MetricsReader::Poll() {
  LineFollower::Progress progress{.more = true};
  while (progress.more && !full_) {
    ASSIGN_OR_RETURN(progress, follower_.Read(16 << 20, [this](absl::string_view line) { TakeLine(line); }));
    if (progress.rewound) Clear();
  }
  if (!full_) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat(options_.path, " has more than ", options_.max_points, " values or ",
                                                   options_.max_metrics, " metrics; what comes first is shown"));
}

const MetricSeries* MetricsReader::Find(absl::string_view name) const {
  const auto found = std::find_if(series_.begin(), series_.end(), [&](const auto& s) { return s.name == name; });
  return found == series_.end() ? nullptr : &*found;
}

MetricsReader::KnownKey MetricsReader::Classify(absl::string_view key) {
  KnownKey known{.key = std::string(key)};
  for (const auto& time : kTimes) {
    if (key == time.key) return {known.key, kTime, time.member};
  }
  if (key == "wall") return {known.key, kTime, nullptr};
  const std::string name = WithoutEscapes(key);
  if (IsOriginOfRecord(key) || name.empty()) return known;
  const auto& wanted = options_.names;
  const bool is_wanted = wanted.empty() || std::any_of(wanted.begin(), wanted.end(), [&](const std::string& pattern) {
                           return pattern == name || fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
                         });
  if (!is_wanted) return known;
  if (series_.size() >= options_.max_metrics) {
    full_ = true;
    return known;
  }
  known.series = static_cast<int>(series_.size());
  series_.push_back({.name = name});
  return known;
}

const MetricsReader::KnownKey& MetricsReader::Lookup(size_t place, absl::string_view key) {
  if (place < by_place_.size() && by_place_[place].key == key) return by_place_[place];
  auto found = known_.find(key);
  if (found == known_.end()) {
    // The names of a hostile file are bounded; those beyond are not kept.
    static const auto& nothing = *new KnownKey;
    if (known_.size() >= options_.max_metrics + 16) return nothing;
    found = known_.emplace(std::string(key), Classify(key)).first;
  }
  if (place >= by_place_.size()) by_place_.resize(std::min(place, known_.size()) + 1);
  if (place < by_place_.size()) by_place_[place] = found->second;
  return found->second;
}

void MetricsReader::Forget(size_t first_row) {
  for (MetricSeries& series : series_) {
    const auto kept = std::lower_bound(series.rows.begin(), series.rows.end(), first_row) - series.rows.begin();
    points_ -= static_cast<int64_t>(series.rows.size()) - kept;
    series.rows.resize(static_cast<size_t>(kept));
    series.values.resize(static_cast<size_t>(kept));
  }
  rows_.resize(first_row);
}

void MetricsReader::TakeLine(absl::string_view line) {
  if (full_ || line.empty()) return;
  MetricRow row;
  bool has_batch = false;
  values_.clear();
  FlatJson json(line);
  JsonMember member;
  for (size_t place = 0; json.Next(member); ++place) {
    const KnownKey& known = Lookup(place, member.key);
    if (known.series >= 0) {
      values_.emplace_back(known.series, member.number());
    } else if (known.series == kTime && known.time != nullptr) {
      row.*known.time = AsWhole(member.number());
      has_batch = has_batch || known.time == &MetricRow::batch;
    } else if (known.series == kTime) {
      row.wall = member.number();
    }
  }
  if (!json.valid() || !has_batch) {
    ++bad_lines_;
    return;
  }
  if (!std::isfinite(row.wall)) row.wall = 0;
  if (!rows_.empty() && row.batch < rows_.back().batch) {
    const auto again = std::partition_point(rows_.begin(), rows_.end(),
                                            [&](const MetricRow& earlier) { return earlier.batch < row.batch; });
    Forget(static_cast<size_t>(again - rows_.begin()));
  }
  if (points_ + static_cast<int64_t>(values_.size()) > options_.max_points ||
      rows_.size() >=
          std::min<size_t>(std::numeric_limits<uint32_t>::max(), static_cast<size_t>(options_.max_points))) {
    full_ = true;
    return;
  }
  const auto index = static_cast<uint32_t>(rows_.size());
  rows_.push_back(row);
  for (const auto& [number, value] : values_) {
    MetricSeries& series = series_[static_cast<size_t>(number)];
    if (!series.rows.empty() && series.rows.back() == index) {  // the same key twice: the last one counts, as in JSON
      series.values.back() = value;
      continue;
    }
    series.rows.push_back(index);
    series.values.push_back(value);
    ++points_;
  }
}

}  // namespace composer
