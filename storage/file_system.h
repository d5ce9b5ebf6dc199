// The few file operations that LocalStore needs, as a seam: tests substitute a simulated disk that loses what was not
// synced. Thread-safe. Errors: base/file.h's mapping of errno codes; messages name the path.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace composer {

class FileSystem {
 public:
  struct Entry {
    std::string name;
    bool is_folder;  // false for a symbolic link
  };

  virtual ~FileSystem() = default;

  // Creates a new file with these bytes. When it returns OK, the bytes are on disk, but the file's name only after
  // SyncFolder. kAlreadyExists when the path is taken. After an error, part of the file may exist.
  virtual absl::Status WriteNewFile(const std::string& path, absl::Span<const absl::string_view> pieces) = 0;
  // Replaces `to` atomically.
  virtual absl::Status Rename(const std::string& from, const std::string& to) = 0;
  // Gives the file the name `to` atomically if that is free; kAlreadyExists when it is taken: of many callers exactly
  // one succeeds. `from` may still exist afterwards.
  virtual absl::Status Link(const std::string& from, const std::string& to) = 0;
  // Removes a file, or an empty folder. OK when it does not exist.
  virtual absl::Status Remove(const std::string& path) = 0;
  // OK when it exists. kNotFound when its parent does not exist.
  virtual absl::Status MakeFolder(const std::string& path) = 0;
  // Ensures that the names in this folder (not deeper) are on disk.
  virtual absl::Status SyncFolder(const std::string& path) = 0;

  // Returns the size of a regular file. Anything else (a FIFO, a device, a folder) is kDataLoss, here and in Read, and
  // is not opened.
  virtual absl::StatusOr<int64_t> Size(const std::string& path) = 0;
  // Fills `into`; kOutOfRange when the file ends too early.
  virtual absl::Status Read(const std::string& path, int64_t offset, absl::Span<char> into) = 0;
  // Returns the entries sorted by name, without `.` and `..`.
  virtual absl::StatusOr<std::vector<Entry>> List(const std::string& path) = 0;
};

// Returns the machine's own file system.
FileSystem& RealFileSystem();

// How a file system can claim a name that must be free: with a second name for a file (POSIX); with a rename that
// replaces nothing, where there are no hard links (exFAT, SMB, many FUSE); or by creating an empty file under the name
// first and replacing it, where there is neither (old NFS, gcsfuse). The last way is safe among writers, but a reader
// may see the empty file, and a crash may leave it: a manifest without content is refused, and replaced by the next
// save.
enum class NameBy { kLink, kRename, kReserve };
// Implements FileSystem::Link on the machine's own file system. Tries `first`, and after each way that the file system
// does not support, the next one.
absl::Status TakeFreeName(const std::string& from, const std::string& to, NameBy first = NameBy::kLink);

}  // namespace composer
