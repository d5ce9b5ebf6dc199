// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/torch_files/packed_file.h"

#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "base/file.h"
#include "base/late_functions.h"
#include "base/status_macros.h"
#include "checkpoint/torch_files/lz4_frame.h"

namespace composer {
namespace {

constexpr size_t kBuffer = size_t{1} << 20;
// gzip packs a thousandfold at most; more is a file made to fill the memory.
constexpr int64_t kMostRatio = 1100, kAlwaysAllowed = int64_t{64} << 20;

struct OtherProgram {
  absl::string_view ending, magic, unpack;
};
constexpr OtherProgram kOtherPrograms[] = {{".bz2", "BZh", "bunzip2"},
                                           {".xz",
                                            "\xfd"
                                            "7zXZ",
                                            "unxz"},
                                           {".lzma", "", "unlzma"},
                                           {".lzo", "", "lzop -d"}};

// A file in memory.
class MemoryFile {
 public:
  MemoryFile() : fd_(memfd_create("unpacked", MFD_CLOEXEC)) {}
  ~MemoryFile() { close(fd_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  int fd() const { return fd_; }
  absl::StatusOr<std::shared_ptr<const MappedFile>> Map() const {
    return MappedFile::Open(absl::StrCat("/proc/self/fd/", fd_));
  }

 private:
  const int fd_;
};

// Takes unpacked bytes, up to a limit.
class Unpacked {
 public:
  explicit Unpacked(absl::string_view packed)
      : limit_(kAlwaysAllowed + kMostRatio * static_cast<int64_t>(packed.size())) {}
  absl::Status Append(absl::string_view bytes) {
    written_ += static_cast<int64_t>(bytes.size());
    if (written_ > limit_) return absl::ResourceExhaustedError("it unpacks to more than a thousandfold of its size");
    return WriteAll(file_.fd(), bytes, "memory");
  }
  absl::StatusOr<std::shared_ptr<const MappedFile>> Map() const { return file_.Map(); }

 private:
  const int64_t limit_;
  int64_t written_ = 0;
  MemoryFile file_;
};

absl::Status DamagedPacking(absl::string_view what) {
  return absl::DataLossError(absl::StrCat("damaged file of ", what, ", or one that is cut off"));
}

// All members of a gzip file, whose checksums zlib compares.
absl::Status Gunzip(absl::string_view packed, Unpacked& into) {
  z_stream stream = {};
  if (inflateInit2(&stream, 15 + 16) != Z_OK) return absl::ResourceExhaustedError("zlib has no memory");
  const absl::Cleanup end = [&] { inflateEnd(&stream); };
  std::string buffer(kBuffer, '\0');
  int result = Z_STREAM_END;
  while (!packed.empty() || result == Z_OK) {
    if (result == Z_STREAM_END && inflateReset(&stream) != Z_OK) return DamagedPacking("gzip");
    const size_t give = std::min<size_t>(packed.size(), size_t{1} << 30);
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
    stream.avail_in = static_cast<uInt>(give);
    stream.next_out = reinterpret_cast<Bytef*>(buffer.data());
    stream.avail_out = static_cast<uInt>(buffer.size());
    result = inflate(&stream, Z_NO_FLUSH);
    if (result != Z_OK && result != Z_STREAM_END) return DamagedPacking("gzip");
    packed.remove_prefix(give - stream.avail_in);
    RETURN_IF_ERROR(into.Append({buffer.data(), buffer.size() - stream.avail_out}));
  }
  return absl::OkStatus();
}

absl::Status Gzip(int fd, const std::string& path, absl::string_view bytes) {
  z_stream stream = {};
  if (deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK)
    return absl::ResourceExhaustedError("zlib has no memory");
  const absl::Cleanup end = [&] { deflateEnd(&stream); };
  std::string buffer(kBuffer, '\0');
  int result = Z_OK;
  while (result != Z_STREAM_END) {
    const size_t give = std::min<size_t>(bytes.size(), size_t{1} << 30);
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
    stream.avail_in = static_cast<uInt>(give);
    stream.next_out = reinterpret_cast<Bytef*>(buffer.data());
    stream.avail_out = static_cast<uInt>(buffer.size());
    result = deflate(&stream, give == bytes.size() ? Z_FINISH : Z_NO_FLUSH);
    bytes.remove_prefix(give - stream.avail_in);
    RETURN_IF_ERROR(WriteAll(fd, {buffer.data(), buffer.size() - stream.avail_out}, path));
  }
  return absl::OkStatus();
}

// The functions used, as zstd.h declares them.
struct ZstdBuffer {
  const void* bytes;
  size_t size, position;
};
struct Zstd {
  void* (*create)() = nullptr;
  size_t (*release)(void*) = nullptr;
  size_t (*decompress)(void*, ZstdBuffer*, ZstdBuffer*) = nullptr;
  size_t (*bound)(size_t) = nullptr;
  size_t (*compress)(void*, size_t, const void*, size_t, int) = nullptr;
  unsigned (*is_error)(size_t) = nullptr;
};

absl::StatusOr<Zstd> LoadZstd() {
  Zstd zstd;
  LateFunctions library("libzstd.so.1", "libzstd1");
  library.Find("ZSTD_createDStream", zstd.create);
  library.Find("ZSTD_freeDStream", zstd.release);
  library.Find("ZSTD_decompressStream", zstd.decompress);
  library.Find("ZSTD_compressBound", zstd.bound);
  library.Find("ZSTD_compress", zstd.compress);
  library.Find("ZSTD_isError", zstd.is_error);
  RETURN_IF_ERROR(library.status());
  return zstd;
}

absl::Status Unzstd(absl::string_view packed, Unpacked& into) {
  ASSIGN_OR_RETURN(const Zstd zstd, LoadZstd());
  const std::unique_ptr<void, size_t (*)(void*)> stream(zstd.create(), zstd.release);
  std::string buffer(kBuffer, '\0');
  ZstdBuffer in = {packed.data(), packed.size(), 0};
  size_t left = 1;  // 0: a frame has ended
  while (left != 0 || in.position < in.size) {
    ZstdBuffer out = {buffer.data(), buffer.size(), 0};
    const size_t before = in.position;
    left = zstd.decompress(stream.get(), &out, &in);
    if (zstd.is_error(left) != 0 || (out.position == 0 && in.position == before)) return DamagedPacking("zstd");
    RETURN_IF_ERROR(into.Append({buffer.data(), out.position}));
  }
  return absl::OkStatus();
}

absl::Status WriteZstd(int fd, const std::string& path, absl::string_view bytes) {
  ASSIGN_OR_RETURN(const Zstd zstd, LoadZstd());
  std::string packed(zstd.bound(bytes.size()), '\0');
  const size_t size = zstd.compress(packed.data(), packed.size(), bytes.data(), bytes.size(), 3);
  if (zstd.is_error(size) != 0) return absl::ResourceExhaustedError("zstd has no memory");
  return WriteAll(fd, {packed.data(), size}, path);
}

std::string TarHeader(size_t size) {
  std::string header(512, '\0');
  const auto put = [&header](size_t at, absl::string_view text) {
    header.replace(at, text.size(), text.data(), text.size());
  };
  put(0, "composer_states.pt");
  put(100, "0000644");
  put(108, "0000000");
  put(116, "0000000");
  if (size < size_t{1} << 33) {
    put(124, absl::StrFormat("%011o", size));
  } else {  // as GNU tar and Python write it
    header[124] = '\x80';
    for (int i = 0; i < 8; ++i) header[static_cast<size_t>(135 - i)] = static_cast<char>(size >> (8 * i) & 0xff);
  }
  put(136, "00000000000");
  put(148, "        ");
  put(156, "0");
  put(257, absl::string_view("ustar\0"
                             "00",
                             8));
  unsigned sum = 0;
  for (const char byte : header) sum += static_cast<uint8_t>(byte);
  put(148, absl::StrFormat("%06o", sum));
  header[154] = '\0';
  return header;
}

absl::Status RefuseOthers(absl::string_view file, absl::string_view what) {
  for (const OtherProgram& other : kOtherPrograms) {
    const bool is_it =
        what.empty() ? absl::EndsWith(file, other.ending) : !other.magic.empty() && absl::StartsWith(what, other.magic);
    if (is_it) {
      return absl::InvalidArgumentError(
          absl::StrCat(file, ": ", other.ending, " is neither written nor read, but .gz, .lz4, .zst and .tar are; `",
                       other.unpack, "` unpacks it"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const MappedFile>> UnpackOnce(std::shared_ptr<const MappedFile> file) {
  const absl::string_view bytes = file->bytes();
  Unpacked unpacked(bytes);
  if (absl::StartsWith(bytes, "\x1f\x8b")) {
    RETURN_IF_ERROR(Gunzip(bytes, unpacked));
  } else if (absl::StartsWith(bytes, "\x28\xb5\x2f\xfd")) {
    RETURN_IF_ERROR(Unzstd(bytes, unpacked));
  } else if (absl::StartsWith(bytes, "\x04\x22\x4d\x18")) {
    RETURN_IF_ERROR(UnpackLz4(bytes, [&](absl::string_view piece) { return unpacked.Append(piece); }));
  } else if (bytes.size() >= 512 && bytes.substr(257, 5) == "ustar") {
    ASSIGN_OR_RETURN(const auto range, FindInTar(bytes));
    RETURN_IF_ERROR(unpacked.Append(bytes.substr(range.first, range.second - range.first)));
  } else {
    return file;
  }
  return unpacked.Map();
}

// Takes the ending of a compression off the name.
Packing::Compression TakeCompression(absl::string_view& name) {
  if (absl::ConsumeSuffix(&name, ".gz")) return Packing::Compression::kGzip;
  if (absl::ConsumeSuffix(&name, ".lz4")) return Packing::Compression::kLz4;
  if (absl::ConsumeSuffix(&name, ".zst")) return Packing::Compression::kZstd;
  return Packing::Compression::kNone;
}

}  // namespace

absl::StatusOr<Packing> PackingOfName(absl::string_view path) {
  RETURN_IF_ERROR(RefuseOthers(path, ""));
  Packing packing;
  absl::string_view name = path;
  packing.compression = TakeCompression(name);
  packing.tar = absl::EndsWith(name, ".tar");
  if (absl::EndsWith(name, ".tgz")) packing = {Packing::Compression::kGzip, true};
  return packing;
}

bool IsTorchFileName(absl::string_view path) {
  absl::string_view name = path;
  TakeCompression(name);
  return absl::EndsWith(name, ".pt") || absl::EndsWith(name, ".tar") || absl::EndsWith(path, ".tgz");
}

absl::StatusOr<std::shared_ptr<const MappedFile>> OpenUnpacked(const std::string& path) {
  ASSIGN_OR_RETURN(std::shared_ptr<const MappedFile> file, MappedFile::Open(path));
  for (int layers = 0; layers < 2; ++layers) {  // an archive that is compressed
    RETURN_IF_ERROR(RefuseOthers(path, file->bytes().substr(0, 8)));
    auto unpacked = UnpackOnce(file);
    if (!unpacked.ok()) return Annotate(unpacked.status(), path);
    if (*unpacked == file) break;
    file = *std::move(unpacked);
  }
  return file;
}

absl::Status WritePacked(int fd, const std::string& path, const Packing& packing,
                         const std::function<absl::Status(int memory)>& write) {
  MemoryFile plain, archive;
  RETURN_IF_ERROR(write(plain.fd()));
  ASSIGN_OR_RETURN(std::shared_ptr<const MappedFile> content, plain.Map());
  if (packing.tar) {
    const absl::string_view bytes = content->bytes();
    const bool goes_on = packing.compression != Packing::Compression::kNone;
    const int into = goes_on ? archive.fd() : fd;
    RETURN_IF_ERROR(WriteAll(into, TarHeader(bytes.size()), path));
    RETURN_IF_ERROR(WriteAll(into, bytes, path));
    RETURN_IF_ERROR(WriteAll(into, std::string((512 - bytes.size() % 512) % 512 + 1024, '\0'), path));
    if (!goes_on) return absl::OkStatus();
    ASSIGN_OR_RETURN(content, archive.Map());
  }
  if (packing.compression == Packing::Compression::kGzip) return Gzip(fd, path, content->bytes());
  if (packing.compression == Packing::Compression::kZstd) return WriteZstd(fd, path, content->bytes());
  ASSIGN_OR_RETURN(const std::string frame, PackLz4(content->bytes()));
  return WriteAll(fd, frame, path);
}

}  // namespace composer
