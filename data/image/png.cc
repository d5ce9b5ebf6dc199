// SPDX-License-Identifier: Apache-2.0
#include "data/image/png.h"

#include <png.h>

#include <csetjmp>
#include <cstring>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace composer {
namespace {

constexpr int kMaxSide = 1 << 24;
constexpr size_t kMaxChunk = size_t{8} << 20;  // of text and profiles, which are not used
// zlib makes at most 1032 bytes of one.
constexpr int64_t kMaxExpansion = 1032;

// libpng leaves by a jump when it fails. Only the functions that say so are jumped out of: they have no objects with
// destructors.
struct Source {
  const char* next = nullptr;
  size_t left = 0;
  std::jmp_buf leave;
  char message[128] = "";
  bool truncated = false;
};

[[noreturn]] void LeavePng(png_structp png, png_const_charp message) {
  auto* source = static_cast<Source*>(png_get_error_ptr(png));
  std::strncpy(source->message, message, sizeof(source->message) - 1);
  std::longjmp(source->leave, 1);
}

void IgnoreWarning(png_structp /*png*/, png_const_charp /*message*/) {}

void ReadBytes(png_structp png, png_bytep to, size_t count) {
  auto* source = static_cast<Source*>(png_get_io_ptr(png));
  if (source->left < count) {
    source->truncated = true;
    png_error(png, "cut off");
  }
  std::memcpy(to, source->next, count);
  source->next += count;
  source->left -= count;
}

// Jumped out of.
bool ReadInfo(png_structp png, png_infop info, Source* source) {
  if (setjmp(source->leave) != 0) return false;
  png_set_read_fn(png, source, ReadBytes);
  png_set_user_limits(png, kMaxSide, kMaxSide);
  png_set_chunk_malloc_max(png, kMaxChunk);
  png_set_chunk_cache_max(png, 64);
  png_read_info(png, info);
  return true;
}

// Sets what is done to pixels; jumped out of.
bool ChooseTransforms(png_structp png, png_infop info, Source* source, bool alpha) {
  if (setjmp(source->leave) != 0) return false;
  const int type = png_get_color_type(png, info), depth = png_get_bit_depth(png, info);
  if (type == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(png);
  if (type == PNG_COLOR_TYPE_GRAY && depth < 8) png_set_expand_gray_1_2_4_to_8(png);
  if (depth == 16) png_set_strip_16(png);
  if (alpha && png_get_valid(png, info, PNG_INFO_tRNS) != 0) png_set_tRNS_to_alpha(png);
  // A palette becomes RGBA when it has transparent entries.
  if (!alpha && type == PNG_COLOR_TYPE_PALETTE) png_set_strip_alpha(png);
  png_set_interlace_handling(png);
  png_read_update_info(png, info);
  return true;
}

// Jumped out of.
bool ReadRows(png_structp png, Source* source, png_bytep* rows) {
  if (setjmp(source->leave) != 0) return false;
  png_read_image(png, rows);
  png_read_end(png, nullptr);
  return true;
}

struct PngHeader {
  int64_t height = 0, width = 0, channels = 0;
};

class PngFile {
 public:
  explicit PngFile(absl::string_view file) : file_bytes_(static_cast<int64_t>(file.size())) {
    source_.next = file.data();
    source_.left = file.size();
    png_ = png_create_read_struct(PNG_LIBPNG_VER_STRING, &source_, LeavePng, IgnoreWarning);
    if (png_ != nullptr) info_ = png_create_info_struct(png_);
  }
  ~PngFile() { png_destroy_read_struct(&png_, &info_, nullptr); }
  PngFile(const PngFile&) = delete;
  PngFile& operator=(const PngFile&) = delete;

  absl::StatusOr<PngHeader> Open(int64_t max_pixels) {
    if (info_ == nullptr) return absl::ResourceExhaustedError("there is no memory to read a PNG file");
    if (!ReadInfo(png_, info_, &source_)) return Failure();
    const int type = png_get_color_type(png_, info_);
    const PngHeader header = {png_get_image_height(png_, info_), png_get_image_width(png_, info_),
                              type == PNG_COLOR_TYPE_PALETTE ? 3 : png_get_channels(png_, info_)};
    if (header.width * header.height > max_pixels)
      return absl::ResourceExhaustedError(absl::StrCat("a PNG file of ", header.width, " x ", header.height,
                                                       " pixels; at most ", max_pixels, " are decoded"));
    if (static_cast<int64_t>(png_get_rowbytes(png_, info_)) * header.height / kMaxExpansion > file_bytes_)
      return absl::InvalidArgumentError(absl::StrCat("a PNG file that is damaged: its ", file_bytes_,
                                                     " bytes cannot hold ", header.width, " x ", header.height,
                                                     " pixels"));
    return header;
  }

  absl::StatusOr<Pixels> Decode(const PngHeader& header, bool alpha) {
    if (!ChooseTransforms(png_, info_, &source_, alpha)) return Failure();
    Pixels image = Pixels::Unset(header.height, header.width, png_get_channels(png_, info_));
    if (png_get_rowbytes(png_, info_) != static_cast<size_t>(image.view().stride()))
      return absl::InternalError("libpng's rows are not of 8-bit pixels");
    std::vector<png_bytep> rows;
    for (int64_t y = 0; y < image.height; ++y) rows.push_back(image.row(y));
    if (!ReadRows(png_, &source_, rows.data())) return Failure();
    return image;
  }

 private:
  absl::Status Failure() const {
    return absl::InvalidArgumentError(source_.truncated
                                          ? "a PNG file that is cut off"
                                          : absl::StrCat("a PNG file that is damaged: ", source_.message));
  }

  const int64_t file_bytes_;
  Source source_;
  png_structp png_ = nullptr;
  png_infop info_ = nullptr;
};

}  // namespace

absl::StatusOr<Pixels> DecodePng(absl::string_view file, bool alpha, int64_t max_pixels) {
  PngFile png(file);
  ASSIGN_OR_RETURN(const PngHeader header, png.Open(max_pixels));
  return png.Decode(header, alpha);
}

}  // namespace composer
