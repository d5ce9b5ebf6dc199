// The file that `composer predict` writes: a line of JSON for each sample (x.jsonl), or one tensor named `outputs` with
// a row for each sample (x.safetensors).
//   {"index":0,"output":[0.25,-1.5]}
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"

namespace composer {

// Threads: one. The file has its name only once it is complete; until then, and after an error, it is x.jsonl.partial.
class PredictionFile {
 public:
  explicit PredictionFile(std::string path) : path_(std::move(path)) {}
  // Returns kInvalidArgument when the file cannot be written.
  absl::Status Open();
  // Adds the rows of a CPU tensor [B, *], in the order of the samples. A JSON file is written as it comes; for
  // safetensors the rows stay in memory.
  void Add(const at::Tensor& rows);
  // Completes the file. Returns an error when something could not be written, or rows differ in shape or dtype.
  absl::Status Finish();
  int64_t rows() const { return rows_; }

 private:
  std::string PartialPath() const { return path_ + ".partial"; }
  absl::Status WriteTensor();

  std::string path_;
  std::ofstream file_;
  int64_t rows_ = 0;
  std::vector<at::Tensor> kept_;
};

}  // namespace composer
