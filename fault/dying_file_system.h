// Simulates a crash in the middle of a write: passes everything on to the machine's files until a path that contains a
// given text is written; then writes half of it and ends the process by SIGKILL.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "storage/file_system.h"

namespace composer {

class DyingFileSystem final : public FileSystem {
 public:
  explicit DyingFileSystem(std::string path_part) : path_part_(std::move(path_part)) {}

  absl::Status WriteNewFile(const std::string& path, absl::Span<const absl::string_view> pieces) override;
  absl::Status Rename(const std::string& from, const std::string& to) override { return files_.Rename(from, to); }
  absl::Status Link(const std::string& from, const std::string& to) override { return files_.Link(from, to); }
  absl::Status Remove(const std::string& path) override { return files_.Remove(path); }
  absl::Status MakeFolder(const std::string& path) override { return files_.MakeFolder(path); }
  absl::Status SyncFolder(const std::string& path) override { return files_.SyncFolder(path); }
  absl::StatusOr<int64_t> Size(const std::string& path) override { return files_.Size(path); }
  absl::Status Read(const std::string& path, int64_t offset, absl::Span<char> into) override {
    return files_.Read(path, offset, into);
  }
  absl::StatusOr<std::vector<Entry>> List(const std::string& path) override { return files_.List(path); }

 private:
  FileSystem& files_ = RealFileSystem();
  const std::string path_part_;
};

}  // namespace composer
