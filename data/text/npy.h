// Arrays of NumPy in .npy files, format versions 1 to 3. Fuzzed: tests/fuzz/text_data_fuzz.cc. Source:
// numpy.lib.format.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace composer {

// Where the numbers of a .npy file are.
struct NpyArray {
  std::string type;  // NumPy's, such as "<i8"; one of kNpyTypes
  size_t width = 0;  // bytes of a number
  std::vector<int64_t> shape;
  size_t begin = 0;  // byte
};

// Little-endian numbers, and truth values.
inline constexpr absl::string_view kNpyTypes[] = {"|b1", "|u1", "|i1", "<u2", "<i2", "<u4",
                                                  "<i4", "<u8", "<i8", "<f2", "<f4", "<f8"};

// Reads the header of a .npy file. kInvalidArgument for everything else: other types, Fortran order, big endian, a
// shape that the file is too short for.
absl::StatusOr<NpyArray> ReadNpyHeader(absl::string_view file);

}  // namespace composer
