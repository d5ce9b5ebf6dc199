// This reads the weights of a model from the files that other programs write:
//   x.safetensors                    Hugging Face's
//   x.pt, x.bin, x.ckpt …            torch.save's, of torch 1.6 and later: a state dict, or a checkpoint of the Python
//                                    Composer; read without executing anything (torch_pickle.h)
//   x.index.json                     a list of either, as Hugging Face splits large models
//   a folder with `.metadata`        torch.distributed.checkpoint's, whatever the number of ranks that wrote it
//   any other folder                 its index, its model.safetensors or pytorch_model.bin, or its only such file
// Any of these files may be packed (packed_file.h). The kind of a file follows from its first bytes, not from its name,
// except that of an index.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace composer {

struct ImportedWeights {
  // The tensors are on the CPU. Those of safetensors lie in the mapped file; those of torch.save share storages as
  // saved.
  std::vector<std::pair<std::string, at::Tensor>> tensors;
  std::vector<std::string> notes;  // for people: what was ignored
};

// `key` says where in torch.save's files the tensors are (torch_pickle.h). Errors name the file: kNotFound;
// kInvalidArgument for what is unsupported, with the reason; kDataLoss if damaged, or a tensor is in two files.
absl::StatusOr<ImportedWeights> ReadWeights(const std::string& source, absl::string_view key);

}  // namespace composer
