// The encodings of MDS columns (mosaicml-streaming's format) and views of what they hold. No value is copied.
//
//   bytes, str (UTF-8), json (UTF-8)           the bytes as they are
//   int (as int64), uint8 ... float64          one little-endian number
//   str_int, str_float, str_decimal            a number as text
//   ndarray[:dtype[:d0,d1,...]]                an array; what the name leaves out stands before the values:
//                                              dtype code (1 byte), ndim << 2 | log2 of the dimensions' bytes (1 byte),
//                                              the dimensions
//   pil                                        width, height, length of the mode (u32 each), mode, raw pixels
//   jpeg, png                                  a picture file
//   jpeg_array (jpegarray)                     u32 count, u32 sizes, JPEG files
//   list[pil], list[jpeg], list[png]           u32 0, u32 count, u32 sizes, elements
// `pkl` is Python's pickle, which runs code when it is read: it is refused by name.
// Source: streaming/base/format/mds/encodings.py of mosaicml-streaming 0.13.0.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace composer {

enum class MdsKind { kBytes, kText, kJson, kNumber, kNumberText, kArray, kPixels, kPicture, kPictureArray, kList };
enum class MdsNumber { kUint8, kInt8, kUint16, kInt16, kFloat16, kUint32, kInt32, kFloat32, kUint64, kInt64, kFloat64 };

struct MdsEncoding {
  std::string name;  // as the index has it
  MdsKind kind = MdsKind::kBytes;
  std::optional<MdsNumber> number;            // kNumber; kArray: if the name fixes it
  std::optional<std::vector<int64_t>> shape;  // kArray: if the name fixes it
  std::optional<MdsKind> element;             // kList: kPixels or kPicture
  std::optional<int64_t> size;                // bytes of a value, if all have as many
};

// kInvalidArgument: names pkl and why it is refused, or the nearest known encoding.
absl::StatusOr<MdsEncoding> ParseMdsEncoding(absl::string_view name);

int64_t BytesOf(MdsNumber number);
absl::string_view NameOf(MdsNumber number);  // "float32"

// Views below point into the value. All are kDataLoss for a damaged value.
struct MdsArray {
  MdsNumber number = MdsNumber::kUint8;
  std::vector<int64_t> shape;
  absl::string_view values;  // little-endian, C order, not aligned
};
// Reads a kArray; a kNumber is an array without dimensions.
absl::StatusOr<MdsArray> ReadArray(const MdsEncoding& encoding, absl::string_view value);

struct MdsPixels {
  uint32_t width = 0, height = 0;
  absl::string_view mode;  // "L", "RGB", ..., as in PIL
  absl::string_view raw;
};
absl::StatusOr<MdsPixels> ReadPixels(absl::string_view value);

// Reads the elements of kPictureArray and kList.
absl::StatusOr<std::vector<absl::string_view>> ReadElements(const MdsEncoding& encoding, absl::string_view value);

// Returns whether the value is well formed: everything but what is inside pictures.
absl::Status CheckValue(const MdsEncoding& encoding, absl::string_view value);

// Writes an array as its encoding says; kInvalidArgument when that fixes another dtype or shape, or for an array that
// MDS cannot hold: no values, no dimensions, more than 63.
absl::StatusOr<std::string> WriteArray(const MdsEncoding& encoding, const MdsArray& array);

}  // namespace composer
