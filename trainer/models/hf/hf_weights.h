// The weights of a Hugging Face folder, and how they become a model's.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "trainer/core/model.h"
#include "trainer/models/hf/stored_values.h"

namespace composer {

// A tensor's values are in a safetensors file, or in memory (from torch.save's files).
using HfTensor = std::variant<StoredTensor, at::Tensor>;
using HfWeights = std::vector<std::pair<std::string, HfTensor>>;

// Reads the headers of NAME.safetensors, of the files that NAME.safetensors.index.json names, or all of
// pytorch_model.bin. kNotFound: there is none of them; kDataLoss: damaged, a tensor is in two files, or in the index
// but not in its file.
absl::StatusOr<HfWeights> FindHfWeights(const std::string& folder, const std::string& name = "model");

// How names of a file and of the model differ.
struct HfNames {
  std::string prefix;              // of the base model's parameters ("bert."), which a file may lack or alone have
  std::vector<std::string> heads;  // prefixes of tasks' parameters: what a file has of other tasks is left
  std::vector<std::string> tied;   // names of files that are parts of other parameters
  bool new_heads = false;          // the file is of another task: heads that it lacks keep their first values
  // Word tables and heads have file_rows rows in the file and own_rows > file_rows in the model: the further ones begin
  // as the mean of the file's, and at 0 in the bias of a tied head. transformers' resize_token_embeddings draws them
  // around that mean with 1e-9 of the rows' covariance, and takes the mean itself where the covariance is not positive
  // definite. 0: the same in both.
  int64_t file_rows = 0, own_rows = 0;
};

// Gives the parameters the values of the weights, in the parameters' dtype. Returns the names of the parameters that
// keep their first values. Throws c10::ValueError that names the tensors that are missing, unexpected or of another
// shape.
std::vector<std::string> TakeHfWeights(Model& model, const HfWeights& weights, const HfNames& names);

}  // namespace composer
