// Files with Status instead of errno. Paths are plain strings; every message names the path and the cause.
// Codes: kNotFound (no such file or folder), kPermissionDenied, kResourceExhausted (disk or quota full, too large),
// kAlreadyExists, kInternal (any other errno).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace composer {

// errno as a Status: "<what> <path>: <strerror>".
absl::Status ErrnoStatus(int error_number, absl::string_view what, absl::string_view path);

std::string JoinPath(absl::string_view a, absl::string_view b);
// "a/b/c.yaml" -> "c.yaml", and -> "c" without the last extension.
std::string BaseName(absl::string_view path);
std::string Stem(absl::string_view path);
std::string DirName(absl::string_view path);
// Absolute, relative to the current folder; symbolic links stay.
std::string AbsolutePath(absl::string_view path);

bool PathExists(const std::string& path);
bool IsDirectory(const std::string& path);
absl::StatusOr<int64_t> FileSize(const std::string& path);

// The whole file. kResourceExhausted when it is larger than max_bytes.
absl::StatusOr<std::string> ReadFile(const std::string& path, int64_t max_bytes = int64_t{1} << 30);

// Readers see the old content or the new one, never a mixture, also after a power cut:
// writes `path.tmp-<pid>`, syncs it, renames it over path, syncs the folder. On failure path is as it was and the temporary file is gone.
absl::Status AtomicWriteFile(const std::string& path, absl::string_view content);

absl::Status MakeDirs(const std::string& path);                             // like mkdir -p
absl::Status SyncDir(const std::string& path);                              // fsync of a folder
absl::Status RemoveFile(const std::string& path);                           // OK when it is not there
absl::Status RemoveTree(const std::string& path);                           // like rm -rf; does not follow links
absl::StatusOr<std::vector<std::string>> ListDir(const std::string& path);  // names, sorted, without . and ..

}  // namespace composer
