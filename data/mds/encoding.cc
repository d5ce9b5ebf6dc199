// SPDX-License-Identifier: Apache-2.0
#include "data/mds/encoding.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/format/little_endian.h"
#include "base/nearest_name.h"
#include "base/status_macros.h"
#include "base/utf8.h"

namespace composer {
namespace {

struct NumberFacts {
  MdsNumber number;
  absl::string_view name;
  int64_t bytes;
  uint8_t code;  // in arrays
};
constexpr std::array<NumberFacts, 11> kNumbers = {{{MdsNumber::kUint8, "uint8", 1, 8},
                                                   {MdsNumber::kInt8, "int8", 1, 9},
                                                   {MdsNumber::kUint16, "uint16", 2, 16},
                                                   {MdsNumber::kInt16, "int16", 2, 17},
                                                   {MdsNumber::kFloat16, "float16", 2, 18},
                                                   {MdsNumber::kUint32, "uint32", 4, 32},
                                                   {MdsNumber::kInt32, "int32", 4, 33},
                                                   {MdsNumber::kFloat32, "float32", 4, 34},
                                                   {MdsNumber::kUint64, "uint64", 8, 64},
                                                   {MdsNumber::kInt64, "int64", 8, 65},
                                                   {MdsNumber::kFloat64, "float64", 8, 66}}};
const NumberFacts& FactsOf(MdsNumber number) { return kNumbers[static_cast<size_t>(number)]; }

struct KindFacts {
  absl::string_view name;
  MdsKind kind;
  std::optional<MdsKind> element = std::nullopt;
};
constexpr std::array<KindFacts, 15> kKinds = {{{"bytes", MdsKind::kBytes},
                                               {"str", MdsKind::kText},
                                               {"json", MdsKind::kJson},
                                               {"str_int", MdsKind::kNumberText},
                                               {"str_float", MdsKind::kNumberText},
                                               {"str_decimal", MdsKind::kNumberText},
                                               {"ndarray", MdsKind::kArray},
                                               {"pil", MdsKind::kPixels},
                                               {"jpeg", MdsKind::kPicture},
                                               {"png", MdsKind::kPicture},
                                               {"jpeg_array", MdsKind::kPictureArray},
                                               {"jpegarray", MdsKind::kPictureArray},
                                               {"list[pil]", MdsKind::kList, MdsKind::kPixels},
                                               {"list[jpeg]", MdsKind::kList, MdsKind::kPicture},
                                               {"list[png]", MdsKind::kList, MdsKind::kPicture}}};

constexpr int64_t kMostValues = int64_t{1} << 40;  // of an array, so that products do not overflow
constexpr size_t kMostDimensions = 63;

const NumberFacts* FindNumber(absl::string_view name) {
  const auto found =
      std::find_if(kNumbers.begin(), kNumbers.end(), [&](const NumberFacts& facts) { return facts.name == name; });
  return found == kNumbers.end() ? nullptr : found;
}

absl::Status BadValue(const MdsEncoding& encoding, absl::string_view why) {
  return absl::DataLossError(absl::StrCat("a value of encoding ", encoding.name, " ", why));
}

absl::Status UnknownEncoding(absl::string_view name) {
  if (name == "pkl") {
    return absl::InvalidArgumentError(
        "encoding `pkl` is refused: reading a Python pickle runs code that it brings; write the column as bytes, json "
        "or ndarray");
  }
  std::vector<std::string> known;
  for (const KindFacts& facts : kKinds) known.emplace_back(facts.name);
  for (const NumberFacts& facts : kNumbers) known.emplace_back(facts.name);
  known.push_back("int");
  return absl::InvalidArgumentError(absl::StrCat("encoding `", name.substr(0, 100), "` is not one of MDS",
                                                 DidYouMean(std::string(name.substr(0, 100)), known)));
}

// Returns the number of values, or nothing for dimensions that no array may have.
std::optional<int64_t> CountValues(const std::vector<int64_t>& shape) {
  int64_t values = 1;
  for (const int64_t dimension : shape) {
    if (dimension < 1 || dimension > kMostValues / values) return std::nullopt;
    values *= dimension;
  }
  return values;
}

// Reads "ndarray:float32:2,3" behind "ndarray:".
absl::Status ParseArray(absl::string_view arguments, MdsEncoding& encoding) {
  const std::vector<absl::string_view> parts = absl::StrSplit(arguments, ':');
  const NumberFacts* const number = FindNumber(parts[0]);
  if (number == nullptr || parts.size() > 2) return UnknownEncoding(encoding.name);
  encoding.number = number->number;
  if (parts.size() == 1) return absl::OkStatus();
  encoding.shape.emplace();
  for (const absl::string_view text : absl::StrSplit(parts[1], ',')) {
    int64_t dimension = 0;
    if (!absl::SimpleAtoi(text, &dimension) || encoding.shape->size() == kMostDimensions)
      return UnknownEncoding(encoding.name);
    encoding.shape->push_back(dimension);
  }
  const std::optional<int64_t> values = CountValues(*encoding.shape);
  if (!values) return UnknownEncoding(encoding.name);
  encoding.size = *values * number->bytes;
  return absl::OkStatus();
}

// Reads the sizes at `offset` and the elements behind them, which must end with the value.
absl::StatusOr<std::vector<absl::string_view>> SplitBySizes(const MdsEncoding& encoding, absl::string_view value,
                                                            uint32_t count, size_t offset) {
  if (count > (value.size() - offset) / 4) return BadValue(encoding, "is shorter than its list of sizes");
  absl::string_view rest = value.substr(offset + 4 * size_t{count});
  std::vector<absl::string_view> elements;
  elements.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    const uint32_t size = NumberAt(value, offset + 4 * i);
    if (size > rest.size()) return BadValue(encoding, "is shorter than its elements");
    elements.push_back(rest.substr(0, size));
    rest.remove_prefix(size);
  }
  if (!rest.empty()) return BadValue(encoding, "is longer than its elements");
  return elements;
}

bool IsNumberText(const MdsEncoding& encoding, absl::string_view value) {
  if (encoding.name == "str_int") {
    if (!value.empty() && (value[0] == '-' || value[0] == '+')) value.remove_prefix(1);
    return !value.empty() && std::all_of(value.begin(), value.end(), absl::ascii_isdigit);
  }
  double number;
  return absl::SimpleAtod(value, &number);
}

}  // namespace

absl::StatusOr<MdsEncoding> ParseMdsEncoding(absl::string_view name) {
  MdsEncoding encoding;
  encoding.name = std::string(name);
  if (const NumberFacts* const number = FindNumber(name == "int" ? "int64" : name)) {
    encoding.kind = MdsKind::kNumber;
    encoding.number = number->number;
    encoding.size = number->bytes;
    return encoding;
  }
  for (const KindFacts& facts : kKinds) {
    if (name != facts.name) continue;
    encoding.kind = facts.kind;
    encoding.element = facts.element;
    return encoding;
  }
  constexpr absl::string_view kArrayOf = "ndarray:";
  if (name.substr(0, kArrayOf.size()) != kArrayOf) return UnknownEncoding(name);
  encoding.kind = MdsKind::kArray;
  if (name.size() > kArrayOf.size()) RETURN_IF_ERROR(ParseArray(name.substr(kArrayOf.size()), encoding));
  return encoding;
}

int64_t BytesOf(MdsNumber number) { return FactsOf(number).bytes; }
absl::string_view NameOf(MdsNumber number) { return FactsOf(number).name; }

absl::StatusOr<MdsArray> ReadArray(const MdsEncoding& encoding, absl::string_view value) {
  if (encoding.kind == MdsKind::kNumber) {
    if (static_cast<int64_t>(value.size()) != BytesOf(*encoding.number)) return BadValue(encoding, "has a wrong size");
    return MdsArray{*encoding.number, {}, value};
  }
  if (encoding.kind != MdsKind::kArray) return absl::InvalidArgumentError("only ndarray columns hold arrays");
  MdsArray array;
  size_t at = 0;
  if (encoding.number) {
    array.number = *encoding.number;
  } else {
    const auto code = value.empty() ? uint8_t{0} : NumberAt<uint8_t>(value, at++);
    const auto facts =
        std::find_if(kNumbers.begin(), kNumbers.end(), [&](const NumberFacts& known) { return known.code == code; });
    if (facts == kNumbers.end()) return BadValue(encoding, "has an unknown dtype");
    array.number = facts->number;
  }
  if (encoding.shape) {
    array.shape = *encoding.shape;
  } else {
    if (value.size() <= at) return BadValue(encoding, "has no shape");
    const auto byte = NumberAt<uint8_t>(value, at++);
    const size_t dimensions = byte >> 2, bytes = size_t{1} << (byte & 3);
    if (dimensions == 0 || (value.size() - at) / bytes < dimensions) return BadValue(encoding, "has no whole shape");
    for (size_t i = 0; i < dimensions; ++i, at += bytes) {
      uint64_t dimension = 0;
      std::memcpy(&dimension, value.data() + at, bytes);
      array.shape.push_back(dimension > static_cast<uint64_t>(kMostValues) ? 0 : static_cast<int64_t>(dimension));
    }
  }
  array.values = value.substr(at);
  const std::optional<int64_t> values = CountValues(array.shape);
  if (!values || *values * BytesOf(array.number) != static_cast<int64_t>(array.values.size()))
    return BadValue(encoding, "does not have as many values as its shape says");
  return array;
}

absl::StatusOr<MdsPixels> ReadPixels(absl::string_view value) {
  if (value.size() < 12 || NumberAt(value, 8) > value.size() - 12)
    return absl::DataLossError("a value of encoding pil is shorter than its header");
  const uint32_t mode = NumberAt(value, 8);
  const MdsPixels pixels{NumberAt(value, 0), NumberAt(value, 4), value.substr(12, mode), value.substr(12 + mode)};
  const __int128 area = static_cast<__int128>(pixels.width) * pixels.height;
  // At most 4 channels of 8 bits, or 32 bits; mode "1" packs 8 pixels of a row into a byte.
  if (pixels.raw.size() > static_cast<unsigned __int128>(area * 4) ||
      area > static_cast<__int128>(pixels.raw.size()) * 8)
    return absl::DataLossError("a value of encoding pil does not have as many pixels as its size says");
  return pixels;
}

absl::StatusOr<std::vector<absl::string_view>> ReadElements(const MdsEncoding& encoding, absl::string_view value) {
  const size_t head = encoding.kind == MdsKind::kList ? 8 : 4;
  if (encoding.kind != MdsKind::kList && encoding.kind != MdsKind::kPictureArray)
    return absl::InvalidArgumentError("only lists and jpeg_array columns have elements");
  if (value.size() < head) return BadValue(encoding, "is shorter than its header");
  return SplitBySizes(encoding, value, NumberAt(value, head - 4), head);
}

absl::Status CheckValue(const MdsEncoding& encoding, absl::string_view value) {
  switch (encoding.kind) {
    case MdsKind::kBytes:
    case MdsKind::kPicture:
      return absl::OkStatus();
    case MdsKind::kText:
      return FirstBadUtf8(value) == absl::string_view::npos ? absl::OkStatus() : BadValue(encoding, "is not UTF-8");
    case MdsKind::kJson:
      return nlohmann::json::accept(value.begin(), value.end()) ? absl::OkStatus() : BadValue(encoding, "is not JSON");
    case MdsKind::kNumberText:
      return IsNumberText(encoding, value) ? absl::OkStatus() : BadValue(encoding, "is not a number");
    case MdsKind::kNumber:
    case MdsKind::kArray:
      return ReadArray(encoding, value).status();
    case MdsKind::kPixels:
      return ReadPixels(value).status();
    case MdsKind::kPictureArray:
    case MdsKind::kList:
      break;
  }
  ASSIGN_OR_RETURN(const std::vector<absl::string_view> elements, ReadElements(encoding, value));
  for (const absl::string_view element : elements) {
    if (encoding.element == MdsKind::kPixels) RETURN_IF_ERROR(ReadPixels(element).status());
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> WriteArray(const MdsEncoding& encoding, const MdsArray& array) {
  const auto bad = [&](absl::string_view why) {
    return absl::InvalidArgumentError(absl::StrCat("an array cannot be written as ", encoding.name, ": ", why));
  };
  if (encoding.kind != MdsKind::kArray) return bad("that is not an encoding of arrays");
  if (encoding.number.value_or(array.number) != array.number) return bad("its dtype is another one");
  if (encoding.shape.value_or(array.shape) != array.shape) return bad("its shape is another one");
  if (array.shape.empty() || array.shape.size() > kMostDimensions) return bad("it must have 1 to 63 dimensions");
  const std::optional<int64_t> values = CountValues(array.shape);
  if (!values || *values * BytesOf(array.number) != static_cast<int64_t>(array.values.size()))
    return bad("it does not have as many values as its shape says, or none");
  std::string out;
  if (!encoding.number) out.push_back(static_cast<char>(FactsOf(array.number).code));
  if (!encoding.shape) {
    const int64_t largest = *std::max_element(array.shape.begin(), array.shape.end());
    const unsigned code = largest < (1 << 8) ? 0 : largest < (1 << 16) ? 1 : largest < (int64_t{1} << 32) ? 2 : 3;
    out.push_back(static_cast<char>((array.shape.size() << 2) | code));
    for (const int64_t dimension : array.shape)
      out.append(reinterpret_cast<const char*>(&dimension), size_t{1} << code);
  }
  absl::StrAppend(&out, array.values);
  return out;
}

}  // namespace composer
