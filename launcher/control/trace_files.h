// The profiler's files in {run folder}/traces, for those who have the dashboard's key: a list of them, and each as the
// answer to GET /traces/NAME?key=KEY, piece by piece, because a trace may have gigabytes. Only regular files of that
// folder are read; names with `/` or a leading `.` and links are refused. A page of the profiler's own (memory.html) is
// shown in a sandbox: it may not reach the dashboard's origin, nor any other.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace composer {

inline constexpr absl::string_view kTracePath = "/traces/";

// Returns [{"name": …, "bytes": …, "modified": UNIX SECONDS}, …], the newest first, at most 1,000; "" without any.
std::string TracesJson(const std::string& run_folder);

class TraceDownload {
 public:
  // `name` is what follows kTracePath, percent-encoded. With `head`, nothing but the answer's head comes.
  TraceDownload(std::string run_folder, absl::string_view name, bool head);
  ~TraceDownload();
  TraceDownload(const TraceDownload&) = delete;
  TraceDownload& operator=(const TraceDownload&) = delete;

  // Returns the next part of the answer: first its head, which may say 404, then the file, 256 KiB at a time. Blocks as
  // long as the file system. kDataLoss: the file has become shorter, and the answer is not whole.
  absl::StatusOr<std::string> Next();
  bool done() const { return done_; }

 private:
  absl::StatusOr<std::string> Begin();

  const std::string folder_, name_;
  const bool head_;
  int fd_ = -1;
  int64_t left_ = 0;  // bytes
  bool begun_ = false, done_ = false;
};

}  // namespace composer
