// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/torch_files/lz4_frame.h"

#include <cstdint>

#include "absl/cleanup/cleanup.h"
#include "base/late_functions.h"
#include "base/status_macros.h"

namespace composer {
namespace {

constexpr size_t kPiece = size_t{1} << 20;
constexpr unsigned kVersion = 100;

// LZ4F_preferences_t and the functions used, as lz4frame.h declares them.
struct Preferences {
  int block_size = 0, block_mode = 0, content_checksum = 0, frame_type = 0;
  uint64_t content_size = 0;
  unsigned dictionary = 0;
  int block_checksum = 0, level = 0;
  unsigned auto_flush = 0, favor_decompression = 0, reserved[3] = {0, 0, 0};
};
struct Lz4 {
  size_t (*create)(void**, unsigned) = nullptr;
  size_t (*release)(void*) = nullptr;
  size_t (*decompress)(void*, void*, size_t*, const void*, size_t*, const void*) = nullptr;
  size_t (*bound)(size_t, const Preferences*) = nullptr;
  size_t (*compress)(void*, size_t, const void*, size_t, const Preferences*) = nullptr;
  unsigned (*is_error)(size_t) = nullptr;
};

absl::StatusOr<Lz4> LoadLz4() {
  Lz4 lz4;
  LateFunctions library("liblz4.so.1", "liblz4-1");
  library.Find("LZ4F_createDecompressionContext", lz4.create);
  library.Find("LZ4F_freeDecompressionContext", lz4.release);
  library.Find("LZ4F_decompress", lz4.decompress);
  library.Find("LZ4F_compressFrameBound", lz4.bound);
  library.Find("LZ4F_compressFrame", lz4.compress);
  library.Find("LZ4F_isError", lz4.is_error);
  RETURN_IF_ERROR(library.status());
  return lz4;
}

}  // namespace

absl::Status UnpackLz4(absl::string_view frames, absl::FunctionRef<absl::Status(absl::string_view)> take) {
  ASSIGN_OR_RETURN(const Lz4 lz4, LoadLz4());
  void* context = nullptr;
  if (lz4.is_error(lz4.create(&context, kVersion)) != 0) return absl::ResourceExhaustedError("lz4 has no memory");
  const absl::Cleanup end = [&] { lz4.release(context); };
  std::string piece(kPiece, '\0');
  size_t left = 1;  // 0: a frame has ended
  while (left != 0 || !frames.empty()) {
    size_t written = piece.size(), read = frames.size();
    left = lz4.decompress(context, piece.data(), &written, frames.data(), &read, nullptr);
    if (lz4.is_error(left) != 0 || (written == 0 && read == 0))
      return absl::DataLossError("damaged file of lz4, or one that is cut off");
    frames.remove_prefix(read);
    RETURN_IF_ERROR(take({piece.data(), written}));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> PackLz4(absl::string_view bytes) {
  ASSIGN_OR_RETURN(const Lz4 lz4, LoadLz4());
  Preferences preferences;
  preferences.content_checksum = 1;
  std::string frame(lz4.bound(bytes.size(), &preferences), '\0');
  const size_t size = lz4.compress(frame.data(), frame.size(), bytes.data(), bytes.size(), &preferences);
  if (lz4.is_error(size) != 0) return absl::ResourceExhaustedError("lz4 has no memory");
  frame.resize(size);
  return frame;
}

}  // namespace composer
