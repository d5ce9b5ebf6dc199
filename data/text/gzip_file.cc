// SPDX-License-Identifier: Apache-2.0
#include "data/text/gzip_file.h"

#include <fcntl.h>
#include <unistd.h>
#include <zlib.h>

#include <cerrno>
#include <memory>

#include "absl/strings/str_cat.h"
#include "base/file.h"

namespace composer {
namespace {

struct CloseGzip {
  void operator()(gzFile file) const { gzclose_r(file); }
};

absl::Status GzipError(const std::string& path, gzFile file) {
  int code = Z_OK;
  const char* text = gzerror(file, &code);
  if (code == Z_ERRNO) return ErrnoStatus(errno, "cannot read", path);
  return absl::InvalidArgumentError(absl::StrCat(path, ": damaged or cut-off gzip file: ", text));
}

}  // namespace

absl::StatusOr<std::string> ReadMaybeGzipFile(const std::string& path, int64_t max_bytes) {
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return ErrnoStatus(errno, "cannot open", path);
  const std::unique_ptr<gzFile_s, CloseGzip> file(gzdopen(descriptor, "rb"));
  if (file == nullptr) {
    close(descriptor);
    return absl::ResourceExhaustedError(absl::StrCat("cannot open ", path, ": out of memory"));
  }
  gzbuffer(file.get(), 256 << 10);
  std::string content;
  constexpr int64_t kChunk = 4 << 20;
  while (true) {
    const size_t before = content.size();
    content.resize(before + kChunk);
    const int got = gzread(file.get(), content.data() + before, kChunk);
    if (got < 0) return GzipError(path, file.get());
    content.resize(before + static_cast<size_t>(got));
    if (static_cast<int64_t>(content.size()) > max_bytes) {
      return absl::ResourceExhaustedError(absl::StrCat(path, ": more than ", max_bytes, " bytes when unpacked"));
    }
    if (got < kChunk) break;
  }
  int code = Z_OK;
  gzerror(file.get(), &code);
  if (code != Z_OK) return GzipError(path, file.get());  // the end is missing
  return content;
}

}  // namespace composer
