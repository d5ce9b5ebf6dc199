// A file mapped as read-only memory. It must not shrink while it is mapped (SIGBUS).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace composer {

class MappedFile {
 public:
  // kNotFound, kPermissionDenied; kInvalidArgument: a folder.
  static absl::StatusOr<std::shared_ptr<const MappedFile>> Open(const std::string& path);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  absl::string_view bytes() const { return bytes_; }

 private:
  explicit MappedFile(absl::string_view bytes) : bytes_(bytes) {}

  const absl::string_view bytes_;  // empty: nothing is mapped
};

}  // namespace composer
