// SPDX-License-Identifier: Apache-2.0
#include "tracking/zip_file.h"

#include <fcntl.h>
#include <unistd.h>
#include <zlib.h>

#include <cerrno>
#include <cstdio>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/format/little_endian.h"
#include "base/status_macros.h"

namespace composer {
namespace {

constexpr size_t kPiece = 256 << 10;
constexpr uint64_t kMostBytes = 0xffffffff;
constexpr uint16_t kVersion = 20, kDeflated = 8, kFirstDay = 0x21;  // 1 January 1980
constexpr uint16_t kUtf8Names = 1 << 11;
constexpr int64_t kFactsAt = 6;  // of the head of a file

}  // namespace

ZipFile::ZipFile(std::string path, std::string temporary, int fd)
    : path_(std::move(path)), temporary_(std::move(temporary)), fd_(fd) {}

ZipFile::ZipFile(ZipFile&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_(std::move(other.temporary_)),
      fd_(std::exchange(other.fd_, -1)),
      size_(other.size_),
      entries_(std::move(other.entries_)) {}

ZipFile::~ZipFile() {
  if (fd_ < 0) return;
  close(fd_);
  unlink(temporary_.c_str());
}

absl::StatusOr<ZipFile> ZipFile::Create(const std::string& path) {
  const std::string temporary = absl::StrCat(path, ".tmp-", getpid());
  const int fd = open(temporary.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) return ErrnoStatus(errno, "cannot create", temporary);
  return ZipFile(path, temporary, fd);
}

absl::Status ZipFile::Write(absl::string_view bytes) {
  size_ += bytes.size();
  if (size_ > kMostBytes)
    return absl::ResourceExhaustedError(absl::StrCat(path_, " would have more than 4 GiB, which the format does not"));
  return WriteAll(fd_, bytes, temporary_);
}

std::string ZipFile::Facts(const Entry& entry) {
  std::string bytes;
  AppendNumber(kUtf8Names, bytes);
  AppendNumber(kDeflated, bytes);
  AppendNumber<uint16_t>(0, bytes);  // midnight
  AppendNumber(kFirstDay, bytes);
  AppendNumber(static_cast<uint32_t>(entry.crc), bytes);
  AppendNumber(static_cast<uint32_t>(entry.packed), bytes);
  AppendNumber(static_cast<uint32_t>(entry.size), bytes);
  AppendNumber(static_cast<uint16_t>(entry.name.size()), bytes);
  AppendNumber<uint16_t>(0, bytes);  // no extra field
  return bytes;
}

absl::Status ZipFile::Add(const std::string& name, int source, absl::string_view content) {
  Entry entry = {.name = name, .offset = size_, .crc = static_cast<uint32_t>(crc32(0, nullptr, 0))};
  std::string head = "PK\x03\x04";
  AppendNumber(kVersion, head);
  RETURN_IF_ERROR(Write(absl::StrCat(head, Facts(entry), name)));
  z_stream stream{};
  if (deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY) != Z_OK)
    return absl::InternalError("zlib cannot begin");
  const absl::Cleanup end = [&stream] { deflateEnd(&stream); };
  std::string piece(kPiece, '\0'), packed(kPiece, '\0');
  for (bool last = false; !last;) {
    absl::string_view input = content;
    if (source >= 0) {
      const ssize_t count = read(source, piece.data(), piece.size());
      if (count < 0) return ErrnoStatus(errno, "cannot read", name);
      input = absl::string_view(piece.data(), static_cast<size_t>(count));
    }
    last = source < 0 || input.empty();
    entry.crc = static_cast<uint32_t>(
        crc32(entry.crc, reinterpret_cast<const Bytef*>(input.data()), static_cast<uInt>(input.size())));
    entry.size += input.size();
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(input.data()));
    stream.avail_in = static_cast<uInt>(input.size());
    do {
      stream.next_out = reinterpret_cast<Bytef*>(packed.data());
      stream.avail_out = static_cast<uInt>(packed.size());
      deflate(&stream, last ? Z_FINISH : Z_NO_FLUSH);
      const size_t count = packed.size() - stream.avail_out;
      entry.packed += count;
      RETURN_IF_ERROR(Write(absl::string_view(packed.data(), count)));
    } while (stream.avail_out == 0);
  }
  if (entry.size > kMostBytes) return absl::ResourceExhaustedError(absl::StrCat(name, " has more than 4 GiB"));
  const std::string facts = Facts(entry);
  if (pwrite(fd_, facts.data(), facts.size(), static_cast<int64_t>(entry.offset) + kFactsAt) !=
      static_cast<ssize_t>(facts.size()))
    return ErrnoStatus(errno, "cannot write", temporary_);
  entries_.push_back(std::move(entry));
  return absl::OkStatus();
}

absl::Status ZipFile::AddText(const std::string& name, absl::string_view content) { return Add(name, -1, content); }

absl::Status ZipFile::AddFile(const std::string& name, const std::string& path) {
  const int source = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (source < 0) return ErrnoStatus(errno, "cannot open", path);
  const absl::Cleanup end = [source] { close(source); };
  return Add(name, source, "");
}

absl::Status ZipFile::Finish() {
  const uint64_t begin = size_;
  for (const Entry& entry : entries_) {
    std::string bytes = "PK\x01\x02";
    AppendNumber(kVersion, bytes);
    AppendNumber(kVersion, bytes);
    absl::StrAppend(&bytes, Facts(entry));
    bytes.append(10, '\0');  // no comment, on the first disk, no attributes
    AppendNumber(static_cast<uint32_t>(entry.offset), bytes);
    RETURN_IF_ERROR(Write(absl::StrCat(bytes, entry.name)));
  }
  std::string end = "PK\x05\x06";
  AppendNumber<uint32_t>(0, end);
  AppendNumber(static_cast<uint16_t>(entries_.size()), end);
  AppendNumber(static_cast<uint16_t>(entries_.size()), end);
  AppendNumber(static_cast<uint32_t>(size_ - begin), end);
  AppendNumber(static_cast<uint32_t>(begin), end);
  AppendNumber<uint16_t>(0, end);
  RETURN_IF_ERROR(Write(end));
  if (rename(temporary_.c_str(), path_.c_str()) != 0) return ErrnoStatus(errno, "cannot rename", temporary_);
  close(std::exchange(fd_, -1));
  return absl::OkStatus();
}

}  // namespace composer
