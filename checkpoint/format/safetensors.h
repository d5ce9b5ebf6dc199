// This implements the safetensors file format (https://github.com/huggingface/safetensors), byte rules as of version
// 0.8:
//   [0, 8)       N, little-endian uint64, at most 100,000,000
//   [8, 8+N)     JSON object: "name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [begin, end)}, padded with
//                spaces so that the data starts at a multiple of 8; "__metadata__": string -> string. Offsets count
//                from 8+N.
//   [8+N, end)   the tensors, C order, little-endian, in order of their offsets, without holes, overlap or trailing
//                bytes
// The format has no checksum; the manifest has one for the header and one for each tensor. Here offsets count from the
// start of the file, so that they are byte ranges to read. No torch. Fuzzed: tests/fuzz/safetensors_fuzz.cc.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace composer {

struct SafetensorsEntry {
  std::string name;
  std::string dtype;
  std::vector<int64_t> shape;
  int64_t begin = 0;  // bytes [begin, end) of the file
  int64_t end = 0;

  bool operator==(const SafetensorsEntry&) const = default;
};

// Returns the bytes of a dense tensor. Returns kInvalidArgument for an unknown dtype, a negative size, a size that is
// not whole bytes, or one too large for int64.
absl::StatusOr<int64_t> TensorBytes(absl::string_view dtype, absl::Span<const int64_t> shape);

// Sorts the entries by element size, widest first, so that each tensor is aligned, then by name, sets begin and end of
// each, and returns the first bytes of the file: N and the header. Returns kInvalidArgument for a bad name, dtype or
// shape, or a header that is too long.
absl::StatusOr<std::string> LayOutSafetensors(std::vector<SafetensorsEntry>* entries);

// Returns 8+N from the first 8 bytes; kDataLoss when the file cannot be that long.
absl::StatusOr<int64_t> SafetensorsHeaderBytes(absl::string_view first_8_bytes, int64_t file_bytes);

// Returns the entries in file order. `header` is bytes [0, 8+N) of a file of `file_bytes`. Returns kDataLoss with the
// reason when any rule is broken.
absl::StatusOr<std::vector<SafetensorsEntry>> ParseSafetensors(absl::string_view header, int64_t file_bytes);

}  // namespace composer
