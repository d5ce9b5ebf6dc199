// Fashion-MNIST: 60,000 + 10,000 grey images of 28 x 28, ten classes. Xiao et al. 2017, arXiv:1708.07747.
// Debian's package dataset-fashion-mnist provides it. The files are in the IDX format, with or without gzip.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "trainer/core/dataset.h"
#include "trainer/data/split.h"

namespace composer {

inline constexpr char kFashionMnistFolder[] = "/usr/share/datasets/fashion-mnist";

// One IDX file: unsigned bytes with 1 to 4 dimensions, each at most 2^31 - 1.
struct IdxArray {
  std::vector<int64_t> shape;
  std::string bytes;  // the elements in row-major order
};

// Returns kInvalidArgument that names `source` and what is wrong: magic number, type, sizes, missing or surplus bytes.
absl::StatusOr<IdxArray> ParseIdx(std::string content, absl::string_view source);

// Reads {train,t10k}-{images-idx3,labels-idx1}-ubyte[.gz] of the folder. Keeps bytes in memory (47 MB for training);
// yields inputs float32 [B, 1, 28, 28] normalised with mean 0.2860 and deviation 0.3530, and targets int64 [B].
// kNotFound says how to get the data; kInvalidArgument says what is wrong with it.
absl::StatusOr<std::shared_ptr<const Dataset>> LoadFashionMnist(const std::string& folder, DataSplit split);

}  // namespace composer
