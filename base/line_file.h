// A file that grows by whole lines; used for metrics.jsonl and the sample records.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace composer {

// Appends each line with one write(): a reader sees whole lines as they happen, a kill tears none, and what earlier
// starts wrote is kept. A line torn by a power cut or a full disk is ended before the next one, so only that line is
// lost. Not thread-safe. A moved-from object may only be destroyed.
class LineFile {
 public:
  // Creates the file when it does not exist; its folder must exist.
  static absl::StatusOr<LineFile> Open(const std::string& path);
  LineFile(LineFile&& other) noexcept;
  LineFile& operator=(LineFile&&) = delete;
  ~LineFile();

  // Requires one line with its '\n'.
  absl::Status Append(absl::string_view line);
  // Makes what was appended survive a power cut.
  absl::Status Sync();
  const std::string& path() const { return path_; }

 private:
  LineFile(std::string path, int fd, bool torn) : path_(std::move(path)), fd_(fd), torn_(torn) {}

  std::string path_;
  int fd_;
  bool torn_;  // the last byte in the file is not '\n'
};

}  // namespace composer
