// The tensors of a torch.save pickle, as places in storages; no bytes of them.
//
// Of classes and functions it knows those that torch makes tensors with (torch._utils._rebuild_tensor_v2 and _v3,
// _rebuild_parameter, the storage types, OrderedDict). A tensor that anything else would be needed for is refused by the
// name of what it is. No torch. Fuzzed: tests/fuzz/torch_pickle_fuzz.cc.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace composer {

struct TorchTensor {
  std::string name;
  std::string dtype;    // safetensors' name
  std::string storage;  // record `data/{storage}` of the archive
  int64_t offset = 0;   // in elements of the storage
  std::vector<int64_t> shape;
  std::vector<int64_t> stride;   // in elements, at least 0
  int64_t storage_elements = 0;  // that the pickle says the storage has; the tensor lies within
};

struct TorchWeights {
  std::string key;                   // where they were: "state/model", "" at the top
  std::vector<TorchTensor> tensors;  // in the file's order, names unique
  std::vector<std::string> skipped;  // members that are no tensors: "steps (a number)"
};

// key: members to go down, joined by '/'. Empty: `state/model` (a Composer checkpoint), else `state_dict`, else the top.
// kDataLoss: damaged. kInvalidArgument: no such member, or no tensors there, or one that is not read; names it.
absl::StatusOr<TorchWeights> ReadTorchPickle(absl::string_view pickle, absl::string_view key);

}  // namespace composer
