// The logger passes everything that a run records to all destinations: the metrics of a step as one record, collected
// under interned names (traces of algorithms are metrics, too); hyperparameters, images, tables and files as they come.
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
#include "trainer/core/event.h"

namespace composer {

// The names of traces start with this prefix. Source: mosaicml composer/core/engine.py.
inline constexpr absl::string_view kTracePrefix = "algorithm_traces/";

struct MetricValue {
  absl::string_view name;  // Composer's name, such as "loss/train/total"; lives as long as the Logger
  double value;
};

// A MetricRecord has the metrics of one step (or one evaluation), in the order in which they were first logged.
struct MetricRecord {
  const Timestamp& timestamp;
  absl::Span<const MetricValue> metrics;
};

// Settings that do not change during a run, as text, in order: ("optimizers/lr", "0.001").
using Hyperparameters = std::vector<std::pair<std::string, std::string>>;

// Pixels are ordered by row from the top, column from the left, channel: height * width * channels bytes. channels is 1
// for grey, 3 for RGB.
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
  absl::Span<const std::vector<std::string>> rows;  // each as long as columns
};
// Returns the table as pandas' to_json(orient="split", index=False) does: {"columns":["a"],"data":[["1"]]}.
std::string TableJson(const TableRecord& table);

// A RunStart is the point from which a run records. Earlier records beyond `timestamp` belong to steps that were lost
// and are done again.
struct RunStart {
  Timestamp timestamp;   // of the checkpoint; all zero from scratch
  bool resumed = false;  // from a checkpoint of this run; else earlier records belong to an earlier life of the run
};

// A LoggerDestination is a place where records go. Called on the training thread of rank 0 only, except for
// destinations that the job adds on every rank (file_logger). A failure or exception is reported once and never stops
// training; the next call is tried again.
class LoggerDestination {
 public:
  virtual ~LoggerDestination() = default;
  virtual std::string name() const = 0;
  // Called once, after the state is loaded and before training.
  virtual absl::Status Start(const RunStart& start) { return absl::OkStatus(); }
  virtual absl::Status Write(const MetricRecord& record) = 0;
  // Called once, before the first record.
  virtual absl::Status WriteHyperparameters(const Hyperparameters& hyperparameters) { return absl::OkStatus(); }
  virtual absl::Status WriteImages(const ImageRecord& record) { return absl::OkStatus(); }
  virtual absl::Status WriteTable(const TableRecord& record) { return absl::OkStatus(); }
  // Called with each file that the run has finished writing, for destinations that keep copies elsewhere. `name` is
  // relative to the run folder. The file may change after the call returns.
  virtual absl::Status TakeFile(absl::string_view name, const std::string& path) { return absl::OkStatus(); }
  // Writes a file that TakeFile took, in this run or an earlier one of the same name, to `path`, which is replaced.
  // Waits for its upload if that is under way. kNotFound if it is not there; kUnimplemented if nothing can be fetched
  // from this destination. Source: mosaicml's LoggerDestination.download_file.
  virtual absl::Status FetchFile(absl::string_view name, const std::string& path);
  // The events that the destination sees besides its records. Asked once, when it is added.
  virtual EventSet events() const { return {}; }
  // Called at each of these events, after algorithms and callbacks (at INIT before them).
  virtual absl::Status See(Event event, const State& state) { return absl::OkStatus(); }
  virtual absl::Status Close() { return absl::OkStatus(); }
};

// Threads: the training thread only. With no destinations (ranks above 0), logging costs a vector write and Flush does
// nothing.
class Logger {
 public:
  using MetricId = int;

  void AddDestination(std::unique_ptr<LoggerDestination> destination);
  // Returns the same id for the same name. Hot code interns once and logs by id.
  MetricId Intern(absl::string_view name);
  void Log(MetricId id, double value);
  void Log(absl::string_view name, double value) { Log(Intern(name), value); }
  void Start(const RunStart& start);
  // Passes everything logged since the last Flush to every destination. If nothing was logged, nothing is written.
  void Flush(const Timestamp& timestamp);
  // Returns the last value logged under this name, also after Flush; NaN if there is none.
  double Last(absl::string_view name) const;
  // Returns whether any value, NaN included, was logged under this name.
  bool WasLogged(absl::string_view name) const;

  // These pass their argument to every destination at once.
  void LogHyperparameters(const Hyperparameters& hyperparameters);
  void LogImages(const ImageRecord& record);
  void LogTable(const TableRecord& record);
  void LogFile(absl::string_view name, const std::string& path);
  // Fetches the file from the first destination that has it; see LoggerDestination::FetchFile. Else returns the first
  // error that is not kUnimplemented, or kUnimplemented that says that no logger keeps files elsewhere: the answer on
  // ranks without destinations.
  absl::Status FetchFile(absl::string_view name, const std::string& path);
  // Passes the event on to the destinations that want to see it.
  void See(Event event, const State& state);
  // Returns the events that any destination wants to see.
  const EventSet& events() const { return events_; }
  // Callers need not make what is only logged (an image, say) when nobody takes it.
  bool has_destinations() const { return !destinations_.empty(); }

  void Close();

 private:
  struct Slot {
    std::unique_ptr<LoggerDestination> destination;
    EventSet events;
    bool failed = false;
  };
  void ForEach(const std::function<absl::Status(LoggerDestination&)>& call);
  static void Report(Slot& slot, const absl::Status& status);

  EventSet events_;  // of all destinations
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
