// Writes a ZIP archive, as Comet's offline experiments are: deflated files of less than 4 GiB in all.
// Format: https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT, without its 64-bit extensions.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace composer {

// Not thread-safe. The file has its name only after Finish; before, and when that is not called, there is nothing.
class ZipFile {
 public:
  static absl::StatusOr<ZipFile> Create(const std::string& path);
  ZipFile(ZipFile&& other) noexcept;
  ZipFile& operator=(ZipFile&&) = delete;
  ~ZipFile();

  absl::Status AddText(const std::string& name, absl::string_view content);
  // Reads the file piece by piece. kNotFound; kResourceExhausted when the archive would have 4 GiB.
  absl::Status AddFile(const std::string& name, const std::string& path);
  absl::Status Finish();

 private:
  struct Entry {
    std::string name;
    uint64_t offset = 0, packed = 0, size = 0;
    uint32_t crc = 0;
  };
  ZipFile(std::string path, std::string temporary, int fd);
  absl::Status Write(absl::string_view bytes);
  absl::Status Add(const std::string& name, int source, absl::string_view content);
  // The part that the head of a file and the list at the end have in common.
  static std::string Facts(const Entry& entry);

  std::string path_, temporary_;
  int fd_;
  uint64_t size_ = 0;
  std::vector<Entry> entries_;
};

}  // namespace composer
