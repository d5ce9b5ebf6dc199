// SPDX-License-Identifier: Apache-2.0
#include "storage/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "base/file.h"

namespace composer {

absl::StatusOr<std::shared_ptr<const MappedFile>> MappedFile::Open(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  if (fd < 0) return ErrnoStatus(errno, "open", path);
  const absl::Cleanup close_fd = [fd] { close(fd); };
  struct stat stat{};
  if (fstat(fd, &stat) != 0) return ErrnoStatus(errno, "stat", path);
  if (!S_ISREG(stat.st_mode)) return absl::InvalidArgumentError(absl::StrCat(path, " is not a regular file"));
  const size_t size = static_cast<size_t>(stat.st_size);
  if (size == 0) return std::shared_ptr<const MappedFile>(new MappedFile(""));
  void* const memory = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
  if (memory == MAP_FAILED) return ErrnoStatus(errno, "map", path);
  return std::shared_ptr<const MappedFile>(new MappedFile({static_cast<const char*>(memory), size}));
}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) munmap(const_cast<char*>(bytes_.data()), bytes_.size());
}

}  // namespace composer
