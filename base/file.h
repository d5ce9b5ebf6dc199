// Files with Status instead of errno. Paths are plain strings; every message names the path and the cause.
// Codes: kNotFound (no such file or folder), kPermissionDenied, kResourceExhausted (disk or quota full, too large),
// kAlreadyExists, kInternal (any other errno).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace composer {

// Returns errno as a Status: "<what> <path>: <strerror>".
absl::Status ErrnoStatus(int error_number, absl::string_view what, absl::string_view path);

std::string JoinPath(absl::string_view a, absl::string_view b);
// BaseName maps "a/b/c.yaml" to "c.yaml"; Stem maps it to "c", without the last extension.
std::string BaseName(absl::string_view path);
std::string Stem(absl::string_view path);
std::string DirName(absl::string_view path);
// Resolves a path relative to the current folder; symbolic links are kept.
std::string AbsolutePath(absl::string_view path);

bool PathExists(const std::string& path);
bool IsDirectory(const std::string& path);

// Returns the whole file. kResourceExhausted when it is larger than max_bytes.
absl::StatusOr<std::string> ReadFile(const std::string& path, int64_t max_bytes = int64_t{1} << 30);

// Writes all of `bytes` to the descriptor; errors name `path`.
absl::Status WriteAll(int fd, absl::string_view bytes, absl::string_view path);

struct AtomicWriteOptions {
  mode_t mode = 0644;  // of the file, from the first byte on: 0600 for one that may hold secrets
  bool sync = true;    // without it, the file need not survive a power cut
};
// Writes `path.tmp-<pid>-<random>`, syncs it, renames it over path and syncs the folder: readers see the old content or
// the new one, never a mixture, even after a power cut. On failure path is unchanged and the temporary file is gone.
absl::Status AtomicWriteFile(const std::string& path, absl::string_view content,
                             const AtomicWriteOptions& options = {});

absl::Status MakeDirs(const std::string& path);                             // like mkdir -p
absl::Status MakePrivateDir(const std::string& path);                       // the same, itself with mode 0700 if new
absl::Status SyncDir(const std::string& path);                              // fsync of a folder
absl::Status RemoveFile(const std::string& path);                           // OK when it does not exist
absl::Status RemoveTree(const std::string& path);                           // like rm -rf; does not follow links
absl::StatusOr<std::vector<std::string>> ListDir(const std::string& path);  // names, sorted, without . and ..

}  // namespace composer
