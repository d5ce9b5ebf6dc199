// The curves of a run, from its metrics.jsonl (trainer/loggers/json_lines.h), whole or while it grows.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "views/read/line_follower.h"

namespace composer {

// When a record was made. Numbers that a line lacks are 0.
struct MetricRow {
  int64_t epoch = 0, batch = 0, sample = 0, token = 0;
  int64_t launch = 0, generation = 0;
  double wall = 0;  // Unix seconds
};

// Whether a member of a record says when it was made or who wrote it, so that it is not a metric. Other names that
// begin with time/ are metrics of monitors, such as time/train.
bool IsOriginOfRecord(absl::string_view key);

struct MetricSeries {
  std::string name;
  std::vector<uint32_t> rows;  // indices of MetricsReader::rows(), growing
  std::vector<double> values;  // NaN where the file has null
};

// Not thread-safe.
class MetricsReader {
 public:
  struct Options {
    std::string path;
    std::vector<std::string> names;   // patterns as of fnmatch(3); empty: all metrics
    int64_t max_points = 20'000'000;  // 12 bytes each
    size_t max_metrics = 10'000;
  };
  explicit MetricsReader(Options options);

  // Reads what was added since the last call. Keeps each step once: when the file was cut, or has a step again, what
  // came after it is forgotten. kResourceExhausted when the file has more than the options allow: what was read stays.
  absl::Status Poll();

  const std::vector<MetricRow>& rows() const { return rows_; }
  const std::vector<MetricSeries>& series() const { return series_; }
  // Returns null when the file has no such metric.
  const MetricSeries* Find(absl::string_view name) const;
  // Lines that are not records: damaged, or longer than LineFollower::kMaxLine.
  int64_t bad_lines() const { return bad_lines_ + follower_.long_lines(); }

 private:
  static constexpr int kTime = -2, kSkipped = -1;  // instead of an index of series_
  struct KnownKey {
    std::string key;
    int series = kSkipped;
    int64_t MetricRow::* time = nullptr;
  };
  void Clear();
  void TakeLine(absl::string_view line);
  const KnownKey& Lookup(size_t place, absl::string_view key);
  KnownKey Classify(absl::string_view key);
  void Forget(size_t first_row);

  const Options options_;
  LineFollower follower_;
  std::vector<MetricRow> rows_;
  std::vector<MetricSeries> series_;
  std::vector<KnownKey> by_place_;  // the keys of the last lines; most lines have the same
  absl::flat_hash_map<std::string, KnownKey> known_;
  std::vector<std::pair<int, double>> values_;  // of the line
  int64_t points_ = 0, bad_lines_ = 0;
  bool full_ = false;
};

}  // namespace composer
