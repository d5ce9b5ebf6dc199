// What a run has to tell goes through here to all destinations: the metrics of a step as one record, collected under
// interned names (traces of algorithms are metrics, too); hyperparameters, images, tables and files as they come.
// Source: mosaicml composer/loggers/{logger,logger_destination}.py.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/time.h"

namespace composer {

// What the names of traces start with. Source: mosaicml composer/core/engine.py.
inline constexpr absl::string_view kTracePrefix = "algorithm_traces/";

struct MetricValue {
  absl::string_view name;  // Composer's: "loss/train/total"; lives as long as the Logger
  double value;
};

// One step's (or one evaluation's) metrics, in the order in which they were first logged.
struct MetricRecord {
  const Timestamp& timestamp;
  absl::Span<const MetricValue> metrics;
};

// Settings of a run that do not change, as text, in order: ("optimizers/lr", "0.001").
using Hyperparameters = std::vector<std::pair<std::string, std::string>>;

// Rows from the top, pixels from the left, channels together: height * width * channels bytes. channels: 1 grey, 3 RGB.
struct Image {
  int height = 0, width = 0, channels = 1;
  std::vector<uint8_t> pixels;
};
struct ImageRecord {
  const Timestamp& timestamp;
  absl::string_view name;  // "Images/Train"
  absl::Span<const Image> images;
};

struct TableRecord {
  const Timestamp& timestamp;
  absl::string_view name;
  absl::Span<const std::string> columns;
  absl::Span<const std::vector<std::string>> rows;  // as long as columns
};
// pandas' to_json(orient="split", index=False): {"columns":["a"],"data":[["1"]]}.
std::string TableJson(const TableRecord& table);

// Where a run starts to record. What a run has recorded beyond `timestamp` belongs to steps that were lost and are done
// again.
struct RunStart {
  Timestamp timestamp;   // of the checkpoint; all zero from scratch
  bool resumed = false;  // from a checkpoint of this run; else earlier records belong to another life of the run
};

// Where records go. Called on the training thread of rank 0 only, except for those that the job adds on every rank
// (file_logger). What fails, or throws, is reported once and never stops training; the next call is tried again.
class LoggerDestination {
 public:
  virtual ~LoggerDestination() = default;
  virtual std::string name() const = 0;
  // Once, when the state is loaded and before training.
  virtual absl::Status Start(const RunStart& start) { return absl::OkStatus(); }
  virtual absl::Status Write(const MetricRecord& record) = 0;
  // Once, before the first record.
  virtual absl::Status WriteHyperparameters(const Hyperparameters& hyperparameters) { return absl::OkStatus(); }
  virtual absl::Status WriteImages(const ImageRecord& record) { return absl::OkStatus(); }
  virtual absl::Status WriteTable(const TableRecord& record) { return absl::OkStatus(); }
  // A file that the run has finished writing, for those that keep copies elsewhere. `name` is relative to the run
  // folder; the file may change after the return.
  virtual absl::Status TakeFile(absl::string_view name, const std::string& path) { return absl::OkStatus(); }
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
  void Start(const RunStart& start);
  // Hands what was logged since the last Flush to every destination; nothing logged: nothing written.
  void Flush(const Timestamp& timestamp);
  // Last value logged under this name, also after Flush; NaN: never.
  double Last(absl::string_view name) const;
  // Whether anything was, NaN included.
  bool WasLogged(absl::string_view name) const;

  // At once, to every destination.
  void LogHyperparameters(const Hyperparameters& hyperparameters);
  void LogImages(const ImageRecord& record);
  void LogTable(const TableRecord& record);
  void LogFile(absl::string_view name, const std::string& path);
  // What is only made to be logged (an image, say) need not be made when nobody takes it.
  bool has_destinations() const { return !destinations_.empty(); }

  void Close();

 private:
  struct Slot {
    std::unique_ptr<LoggerDestination> destination;
    bool failed = false;
  };
  void ForEach(const std::function<absl::Status(LoggerDestination&)>& call);

  std::vector<Slot> destinations_;
  absl::flat_hash_map<std::string, MetricId> ids_;
  std::vector<std::unique_ptr<std::string>> names_;  // stable addresses
  std::vector<double> last_;
  std::vector<bool> was_logged_;     // by id
  std::vector<bool> is_pending_;     // by id
  std::vector<MetricId> pending_;    // logged since the last Flush, in order
  std::vector<MetricValue> record_;  // scratch of Flush
};

}  // namespace composer
