// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/torch_files/torch_writer.h"

#include <caffe2/serialize/inline_container.h>
#include <fcntl.h>
#include <unistd.h>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/status_macros.h"

namespace composer {

// torch's writer throws, and must not be told of a failed write: its destructor goes on.
absl::StatusOr<int64_t> AppendTorchArchive(int fd, const std::string& path, const std::string& pickle,
                                           const std::vector<at::Tensor>& storages) {
  absl::Status status;
  int64_t bytes = 0;
  {
    caffe2::serialize::PyTorchStreamWriter writer([&](const void* data, size_t size) {
      if (status.ok()) status = WriteAll(fd, {static_cast<const char*>(data), size}, path);
      bytes += static_cast<int64_t>(size);
      return size;
    });
    writer.writeRecord("data.pkl", pickle.data(), pickle.size());
    writer.writeRecord("byteorder", "little", 6);
    for (size_t i = 0; i < storages.size() && status.ok(); ++i)
      writer.writeRecord(absl::StrCat("data/", i), storages[i].data_ptr(), storages[i].nbytes());
    writer.writeEndOfFile();
  }
  RETURN_IF_ERROR(status);
  return bytes;
}

absl::Status WriteWholeFile(const std::string& path, const std::function<absl::Status(int fd)>& write) {
  const std::string temporary = absl::StrCat(path, ".tmp-", getpid());
  const int fd = open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
  if (fd < 0) return ErrnoStatus(errno, "cannot create", temporary);
  const absl::Cleanup clean = [&] {
    close(fd);
    unlink(temporary.c_str());
  };
  RETURN_IF_ERROR(write(fd));
  if (fsync(fd) != 0) return ErrnoStatus(errno, "cannot sync", temporary);
  if (rename(temporary.c_str(), path.c_str()) != 0) return ErrnoStatus(errno, "cannot rename to", path);
  return SyncDir(DirName(path));
}

}  // namespace composer
