// Metrics of a step are collected under interned names and go to all destinations as one record.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "trainer/core/time.h"

namespace composer {

struct MetricValue {
  absl::string_view name;  // Composer's: "loss/train/total"; lives as long as the Logger
  double value;
};

// One step's (or one evaluation's) metrics, in the order in which they were first logged.
struct MetricRecord {
  const Timestamp& timestamp;
  absl::Span<const MetricValue> metrics;
};

// Where records go. Called on the training thread of rank 0 only. A failure is reported once and never stops training.
class LoggerDestination {
 public:
  virtual ~LoggerDestination() = default;
  virtual std::string name() const = 0;
  virtual absl::Status Write(const MetricRecord& record) = 0;
  virtual absl::Status Close() { return absl::OkStatus(); }
};

// Threads: the training thread only. With no destinations (ranks above 0) logging costs a vector write and Flush
// nothing.
class Logger {
 public:
  using MetricId = int;

  void AddDestination(std::unique_ptr<LoggerDestination> destination);
  // Same name, same id. Hot code interns once and logs by id.
  MetricId Intern(absl::string_view name);
  void Log(MetricId id, double value);
  void Log(absl::string_view name, double value) { Log(Intern(name), value); }
  // Hands what was logged since the last Flush to every destination; nothing logged: nothing written.
  void Flush(const Timestamp& timestamp);
  // Last value logged under this name, also after Flush; NaN: never.
  double Last(absl::string_view name) const;
  void Close();

 private:
  struct Slot {
    std::unique_ptr<LoggerDestination> destination;
    bool failed = false;
  };
  std::vector<Slot> destinations_;
  absl::flat_hash_map<std::string, MetricId> ids_;
  std::vector<std::unique_ptr<std::string>> names_;  // stable addresses
  std::vector<double> last_;
  std::vector<bool> is_pending_;     // by id
  std::vector<MetricId> pending_;    // logged since the last Flush, in order
  std::vector<MetricValue> record_;  // scratch of Flush
};

}  // namespace composer
