// The few file operations that LocalStore needs, as a seam: tests put a simulated disk here that loses what was not
// synced. Threads: any. Errors: base/file.h's table of errno codes; messages name the path.
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
    bool is_folder;  // a symbolic link is none
  };

  virtual ~FileSystem() = default;

  // A new file with these bytes; they are on disk when it returns OK, the file's name only after SyncFolder.
  // kAlreadyExists when the path is taken. After an error a part of the file may be there.
  virtual absl::Status WriteNewFile(const std::string& path, absl::Span<const absl::string_view> pieces) = 0;
  // Replaces `to` at one instant.
  virtual absl::Status Rename(const std::string& from, const std::string& to) = 0;
  // Gives the file the name `to`, at one instant, when that is free; kAlreadyExists when it is taken: of many exactly one
  // gets it. `from` may be there still afterwards.
  virtual absl::Status Link(const std::string& from, const std::string& to) = 0;
  // A file, or an empty folder. OK when it is not there.
  virtual absl::Status Remove(const std::string& path) = 0;
  // OK when it is there. kNotFound when its parent is not.
  virtual absl::Status MakeFolder(const std::string& path) = 0;
  // After it the names in this folder (not deeper) are on disk.
  virtual absl::Status SyncFolder(const std::string& path) = 0;

  // Of a regular file; anything else (a FIFO, a device, a folder) is kDataLoss, here and in Read, and is not opened.
  virtual absl::StatusOr<int64_t> Size(const std::string& path) = 0;
  // Fills `into`; kOutOfRange when the file ends before.
  virtual absl::Status Read(const std::string& path, int64_t offset, absl::Span<char> into) = 0;
  // Sorted by name, without `.` and `..`.
  virtual absl::StatusOr<std::vector<Entry>> List(const std::string& path) = 0;
};

// The machine's own.
FileSystem& RealFileSystem();

// How a file system can create a name that must be free: with a second name for a file (POSIX); with a rename that
// replaces nothing, where there are no hard links (exFAT, SMB, many FUSE); or by creating an empty file under the name
// first, and replacing that, where there is neither (old NFS, gcsfuse). The last one is safe among writers, but a reader
// may see the empty file, and a crash may leave it: a manifest without content is refused, and replaced by the next save.
enum class NameBy { kLink, kRename, kReserve };
// FileSystem::Link of the machine's own, beginning with `first`; each way that the file system does not know is followed
// by the next.
absl::Status TakeFreeName(const std::string& from, const std::string& to, NameBy first = NameBy::kLink);

}  // namespace composer
