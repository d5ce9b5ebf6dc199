// Samples out of files of tensors: safetensors, and NumPy's .npy. Files are mapped into memory. A row of a tensor, or
// of an array, is a sample's value: the first dimension counts the samples.
//   x.safetensors  has a key for each of its tensors; several files with the same keys follow each other
//   key.npy        is the values of one key, its file's name; several files stand beside each other
// Values: floats become float32; bytes stay bytes, but as scalars int64; truth values and other integers become int64.
// Threads: any number at a time. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "trainer/core/dataset.h"

namespace composer {

// Paths are files, folders or globs. kInvalidArgument names the file, and the key: no samples, keys that differ in
// their number of rows, or between files in key, shape or type, complex numbers, both kinds of files. kDataLoss for a
// damaged safetensors file.
absl::StatusOr<std::shared_ptr<const SampleSource>> OpenTensorFiles(const std::vector<std::string>& paths);

}  // namespace composer
