// SPDX-License-Identifier: Apache-2.0
#include "data/text/npy.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/format/little_endian.h"
#include "base/status_macros.h"

namespace composer {
namespace {

// Returns what follows `'key':` in the Python dictionary that is a .npy header; "" if there is none.
absl::string_view ValueIn(absl::string_view header, absl::string_view key) {
  const std::string quoted = absl::StrCat("'", key, "':");
  const size_t at = header.find(quoted);
  return at == absl::string_view::npos ? "" : absl::StripLeadingAsciiWhitespace(header.substr(at + quoted.size()));
}

absl::Status ReadShape(absl::string_view text, NpyArray& array) {
  const size_t end = text.find(')');
  if (text.empty() || text[0] != '(' || end == absl::string_view::npos)
    return absl::InvalidArgumentError("the .npy header has no shape");
  for (const absl::string_view part : absl::StrSplit(text.substr(1, end - 1), ',')) {
    int64_t size = 0;
    if (absl::StripAsciiWhitespace(part).empty()) continue;
    if (!absl::SimpleAtoi(part, &size) || size < 0 || array.shape.size() == 8)
      return absl::InvalidArgumentError("the .npy header has no shape that can be read");
    array.shape.push_back(size);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<NpyArray> ReadNpyHeader(absl::string_view file) {
  constexpr absl::string_view kMagic("\x93NUMPY", 6);
  if (file.size() < 12 || !absl::StartsWith(file, kMagic) || file[6] < 1 || file[6] > 3)
    return absl::InvalidArgumentError("this is not a .npy file of format version 1, 2 or 3");
  const size_t width = file[6] == 1 ? 2 : 4;
  const size_t length = width == 2 ? NumberAt<uint16_t>(file, 8) : NumberAt(file, 8);
  NpyArray array{.begin = 8 + width + length};
  if (length > file.size() || array.begin > file.size())
    return absl::InvalidArgumentError("the .npy header is longer than the file");
  const absl::string_view header = file.substr(8 + width, length);
  const absl::string_view descr = ValueIn(header, "descr");
  const auto* const type = std::find_if(std::begin(kNpyTypes), std::end(kNpyTypes), [&](absl::string_view known) {
    return absl::StartsWith(descr, absl::StrCat("'", known, "'"));
  });
  if (type == std::end(kNpyTypes))
    return absl::InvalidArgumentError(
        absl::StrCat("the array is of ", descr.substr(0, std::min<size_t>(descr.find(','), 20)),
                     "; what is read are truth values, integers, float16, float32 and float64, little-endian"));
  array.type = std::string(*type);
  array.width = static_cast<size_t>((*type)[2] - '0');
  if (!absl::StartsWith(ValueIn(header, "fortran_order"), "False"))
    return absl::InvalidArgumentError("the array is in Fortran order");
  RETURN_IF_ERROR(ReadShape(ValueIn(header, "shape"), array));
  size_t left = (file.size() - array.begin) / array.width;
  const bool empty = std::find(array.shape.begin(), array.shape.end(), 0) != array.shape.end();
  for (const int64_t size : array.shape) {
    if (!empty && left / static_cast<size_t>(size) == 0)
      return absl::InvalidArgumentError("the file is shorter than the shape in its header says");
    if (size > 0) left /= static_cast<size_t>(size);
  }
  return array;
}

}  // namespace composer
