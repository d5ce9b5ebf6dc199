// A file that grows by whole lines: what metrics.jsonl and the sample records are written with.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace composer {

// Each line is one write() to a file opened for appending: a reader sees whole lines as they happen, a kill tears none,
// and what earlier starts wrote stays. A line that a power cut or a full disk tore is ended before the next one, so
// only it is lost. Threads: one. Moved-from: only to be destroyed.
class LineFile {
 public:
  // Creates the file when it is not there; its folder must be.
  static absl::StatusOr<LineFile> Open(const std::string& path);
  LineFile(LineFile&& other) noexcept;
  LineFile& operator=(LineFile&&) = delete;
  ~LineFile();

  // line: one line with its '\n'.
  absl::Status Append(absl::string_view line);
  // After it a power cut keeps what was appended.
  absl::Status Sync();
  const std::string& path() const { return path_; }

 private:
  LineFile(std::string path, int fd, bool torn) : path_(std::move(path)), fd_(fd), torn_(torn) {}

  std::string path_;
  int fd_;
  bool torn_;  // the last byte in the file is not '\n'
};

}  // namespace composer
