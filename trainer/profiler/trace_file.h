// Writes a timeline as a file in Chrome's trace format, which ui.perfetto.dev and chrome://tracing open. Each event is
// one line, so that files can be joined (trace_merge.h) without being parsed:
//
//   {"schemaVersion":1,"displayTimeUnit":"ms","baseTimeNanoseconds":B,"composer":{"rank":0,…},"traceEvents":[
//   {"ts":43200000000.123,"ph":"X","name":"forward","cat":"forward","pid":0,"tid":1,"dur":1500.000},
//   …
//   ]}
//
// pid is the rank. ts and dur are microseconds. ts counts from B, the last midnight (UTC) before the run began, so that
// the viewer shows the time of day, files of different ranks and windows agree, and a double holds nanoseconds.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace composer {

// Returns the midnight before unix_ns. Both are nanoseconds since 1970.
int64_t TraceBase(int64_t unix_ns);

struct TraceFileHeader {
  int64_t base_ns = 0;
  int rank = 0;
  int world_size = 1;
  std::string run_name;
  bool with_profiler_steps = false;  // each batch as ProfilerStep#N of its thread, too, as torch's profiler has them
};

// The row in which an event is drawn. The rows of a rank are its batches, its threads, and the streams of its GPU.
struct TraceRow {
  int64_t tid;
  static TraceRow Batches() { return {999'999}; }
  static TraceRow Thread(uint64_t thread) { return {static_cast<int64_t>(thread)}; }
  static TraceRow Stream(int device, int64_t stream) { return {(device + 1) * int64_t{1'000'000} + stream}; }
};

// Writes to a temporary name. The whole file exists once Finish has returned OK, which also reports write errors.
class TraceFileWriter {
 public:
  static absl::StatusOr<std::unique_ptr<TraceFileWriter>> Create(const std::string& path,
                                                                 const TraceFileHeader& header);
  ~TraceFileWriter();
  TraceFileWriter(const TraceFileWriter&) = delete;
  TraceFileWriter& operator=(const TraceFileWriter&) = delete;

  void ProcessName(absl::string_view name);
  // Rows are ordered by sort_index.
  void RowName(TraceRow row, absl::string_view name, int64_t sort_index);
  // args holds members of a JSON object, `"flops":12,"shapes":[[2]]`, or is "".
  void Complete(absl::string_view name, absl::string_view category, int64_t begin_ns, int64_t duration_ns, TraceRow row,
                absl::string_view args = "");
  void Instant(absl::string_view name, absl::string_view category, int64_t time_ns, TraceRow row);
  // Writes one graph. Values that are not numbers are left out.
  void Counter(absl::string_view name, int64_t time_ns, absl::Span<const std::pair<std::string, double>> values);
  // Draws an arrow from where `id` was launched to where it ran.
  void Arrow(uint64_t id, int64_t from_ns, TraceRow from, int64_t to_ns, TraceRow to);
  absl::Status Finish();

 private:
  TraceFileWriter(std::string path, FILE* file, const TraceFileHeader& header);
  // Appends `{"ts":…,"ph":"…","pid":…` to line_.
  void Begin(int64_t time_ns, absl::string_view phase);
  void Text(absl::string_view key, absl::string_view value);
  void End();

  std::string path_;
  FILE* file_;  // null once finished
  const int64_t base_ns_;
  const int rank_;
  bool is_first_ = true;
  std::string line_;
};

// Appends text as a JSON string with its quotes. Bytes that are not UTF-8 are replaced.
void AppendJsonString(std::string* out, absl::string_view text);

}  // namespace composer
