// SPDX-License-Identifier: Apache-2.0
#include "launcher/peer_memory/memory_folder.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/status_macros.h"

namespace composer {

MemoryFolder::Incoming& MemoryFolder::Incoming::operator=(Incoming&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(path_, other.path_);
  std::swap(target_, other.target_);
  return *this;
}

MemoryFolder::Incoming::~Incoming() {
  if (fd_ < 0) return;
  close(fd_);
  unlink(path_.c_str());
}

absl::Status MemoryFolder::Incoming::Append(absl::string_view data) { return WriteAll(fd_, data, target_); }

absl::Status MemoryFolder::Incoming::Commit() {
  RETURN_IF_ERROR(MakeDirs(DirName(target_)));
  if (rename(path_.c_str(), target_.c_str()) != 0) return ErrnoStatus(errno, "rename to", target_);
  close(fd_);
  fd_ = -1;
  return absl::OkStatus();
}

absl::StatusOr<MemoryFolder::Incoming> MemoryFolder::Receive(const std::string& key) {
  RETURN_IF_ERROR(CheckKey(key));
  RETURN_IF_ERROR(MakeDirs(store_.root()));
  Incoming incoming;
  incoming.target_ = JoinPath(store_.root(), key);
  incoming.path_ = JoinPath(store_.root(), absl::StrCat(kLeftoverPrefix, "XXXXXX"));
  incoming.fd_ = mkostemp(incoming.path_.data(), O_CLOEXEC);
  if (incoming.fd_ < 0) return ErrnoStatus(errno, "make", incoming.path_);
  return incoming;
}

absl::Status MemoryFolder::Send(const std::string& key, absl::FunctionRef<bool(absl::string_view)> take) const {
  RETURN_IF_ERROR(CheckKey(key));
  const std::string path = JoinPath(store_.root(), key);
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  if (fd < 0) return ErrnoStatus(errno, "open", path);
  std::string chunk(kChunkBytes, '\0');
  ssize_t count = 0;
  while ((count = read(fd, chunk.data(), chunk.size())) != 0) {
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 || !take(absl::string_view(chunk.data(), static_cast<size_t>(count)))) break;
  }
  const int error = errno;
  close(fd);
  return count < 0 ? ErrnoStatus(error, "read", path) : absl::OkStatus();
}

absl::StatusOr<std::vector<std::pair<std::string, int64_t>>> MemoryFolder::List(const std::string& folder) {
  if (!folder.empty()) RETURN_IF_ERROR(CheckKey(folder));
  ASSIGN_OR_RETURN(const std::vector<std::string> keys, store_.List(folder));
  std::vector<std::pair<std::string, int64_t>> objects;
  for (const std::string& key : keys) {
    if (IsLeftover(key)) continue;
    const absl::StatusOr<int64_t> bytes = store_.Size(key);
    if (bytes.ok()) objects.emplace_back(key, *bytes);  // otherwise it was removed meanwhile
  }
  return objects;
}

absl::Status MemoryFolder::Remove(const std::string& key) {
  RETURN_IF_ERROR(CheckKey(key));
  if (!IsDirectory(JoinPath(store_.root(), key))) return store_.Delete(key);
  return store_.DeleteTree(key);
}

}  // namespace composer
