// SPDX-License-Identifier: Apache-2.0
#include "data/image/jpeg.h"

// jpeglib.h needs this one before it.
#include <jerror.h>
#include <jpeglib.h>

#include <csetjmp>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace composer {
namespace {

// A progressive file can ask for the whole image to be passed over as often as it likes.
constexpr int kMaxScans = 500;
// A block of 64 pixels takes at least one bit of a file that is not arithmetically coded.
constexpr int64_t kMaxPixelsPerByte = 512;

// libjpeg leaves by a jump when it fails. Only the functions that say so are jumped out of: they have no objects with
// destructors.
struct Decoder {
  jpeg_decompress_struct info = {};
  jpeg_error_mgr errors = {};
  jpeg_progress_mgr progress = {};
  std::jmp_buf leave;
  char message[JMSG_LENGTH_MAX] = "";
  bool truncated = false;
};

Decoder* DecoderOf(j_common_ptr info) { return static_cast<Decoder*>(info->client_data); }

[[noreturn]] void Leave(j_common_ptr info) {
  Decoder* decoder = DecoderOf(info);
  info->err->format_message(info, decoder->message);
  std::longjmp(decoder->leave, 1);
}

void Ignore(j_common_ptr /*info*/, int /*level*/) {}
void IgnoreMessage(j_common_ptr /*info*/) {}

// libjpeg asks for more than there is: it would make up an end and leave the rest grey.
boolean RefuseMore(j_decompress_ptr info) {
  DecoderOf(reinterpret_cast<j_common_ptr>(info))->truncated = true;
  ERREXIT(info, JERR_INPUT_EOF);
  return FALSE;
}

void CountScans(j_common_ptr info) {
  if (info->is_decompressor && reinterpret_cast<j_decompress_ptr>(info)->input_scan_number > kMaxScans)
    ERREXIT(info, JERR_BAD_PROGRESSION);
}

// Jumped out of.
bool ReadHeader(Decoder* decoder, const char* bytes, size_t size) {
  if (setjmp(decoder->leave) != 0) return false;
  jpeg_create_decompress(&decoder->info);
  jpeg_mem_src(&decoder->info, reinterpret_cast<const unsigned char*>(bytes), size);
  decoder->info.src->fill_input_buffer = RefuseMore;
  jpeg_read_header(&decoder->info, TRUE);
  return true;
}

// Jumped out of. Rows of `stride` bytes.
bool ReadPixels(Decoder* decoder, uint8_t* rows, size_t stride) {
  if (setjmp(decoder->leave) != 0) return false;
  jpeg_start_decompress(&decoder->info);
  JSAMPROW next[16];
  while (decoder->info.output_scanline < decoder->info.output_height) {
    for (size_t i = 0; i < 16; ++i) next[i] = rows + (decoder->info.output_scanline + i) * stride;
    jpeg_read_scanlines(&decoder->info, next, 16);  // never more than there are
  }
  jpeg_finish_decompress(&decoder->info);
  return true;
}

struct JpegHeader {
  int64_t height = 0, width = 0, channels = 0;
};

class JpegFile {
 public:
  JpegFile() {
    decoder_.info.err = jpeg_std_error(&decoder_.errors);
    decoder_.info.client_data = &decoder_;
    decoder_.errors.error_exit = Leave;
    decoder_.errors.emit_message = Ignore;
    decoder_.errors.output_message = IgnoreMessage;
    decoder_.progress.progress_monitor = CountScans;
  }
  ~JpegFile() { jpeg_destroy_decompress(&decoder_.info); }
  JpegFile(const JpegFile&) = delete;
  JpegFile& operator=(const JpegFile&) = delete;

  absl::StatusOr<JpegHeader> Open(absl::string_view file, int64_t max_pixels) {
    if (!ReadHeader(&decoder_, file.data(), file.size())) return Failure();
    const jpeg_decompress_struct& info = decoder_.info;
    const int64_t pixels = int64_t{info.image_width} * int64_t{info.image_height};
    const JpegHeader header = {info.image_height, info.image_width, info.num_components == 1 ? 1 : 3};
    if (pixels > max_pixels)
      return absl::ResourceExhaustedError(absl::StrCat("a JPEG file of ", header.width, " x ", header.height,
                                                       " pixels; at most ", max_pixels, " are decoded"));
    if (!info.arith_code && pixels / kMaxPixelsPerByte > static_cast<int64_t>(file.size()))
      return absl::InvalidArgumentError(absl::StrCat("a JPEG file that is damaged: its ", file.size(),
                                                     " bytes cannot hold ", header.width, " x ", header.height,
                                                     " pixels"));
    return header;
  }

  absl::StatusOr<Pixels> Decode(const JpegHeader& header, bool to_rgb) {
    jpeg_decompress_struct& info = decoder_.info;
    const bool cmyk = info.jpeg_color_space == JCS_CMYK || info.jpeg_color_space == JCS_YCCK;
    info.out_color_space = cmyk ? JCS_CMYK : header.channels == 3 || to_rgb ? JCS_RGB : JCS_GRAYSCALE;
    info.progress = &decoder_.progress;
    const int channels = cmyk ? 4 : info.out_color_space == JCS_RGB ? 3 : 1;
    Pixels image = Pixels::Unset(header.height, header.width, channels);
    if (!ReadPixels(&decoder_, image.bytes.data(), static_cast<size_t>(image.view().stride()))) return Failure();
    return cmyk ? FromCmyk(image) : image;
  }

 private:
  absl::Status Failure() const {
    return absl::InvalidArgumentError(decoder_.truncated
                                          ? "a JPEG file that is cut off"
                                          : absl::StrCat("a JPEG file that is damaged: ", decoder_.message));
  }

  // What PIL makes of Adobe's inverted CMYK.
  static Pixels FromCmyk(const Pixels& image) {
    Pixels rgb(image.height, image.width, 3);
    const uint8_t* from = image.bytes.data();
    for (uint8_t *to = rgb.bytes.data(), *end = to + rgb.bytes.size(); to < end; to += 3, from += 4) {
      for (int c = 0; c < 3; ++c) {
        const int scaled = (255 - from[c]) * from[3] + 128;  // divided by 255 with rounding
        to[c] = static_cast<uint8_t>(from[3] - (((scaled >> 8) + scaled) >> 8));
      }
    }
    return rgb;
  }

  Decoder decoder_;
};

}  // namespace

absl::StatusOr<Pixels> DecodeJpeg(absl::string_view file, int channels, int64_t max_pixels) {
  JpegFile jpeg;
  ASSIGN_OR_RETURN(const JpegHeader header, jpeg.Open(file, max_pixels));
  return jpeg.Decode(header, channels == 3);
}

}  // namespace composer
