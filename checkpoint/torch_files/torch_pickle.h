// This finds the tensors of a torch.save pickle, as places in storages, without their bytes.
//
// Of classes and functions it knows those with which torch makes tensors (torch._utils._rebuild_tensor_v2 and _v3,
// _rebuild_parameter, the storage types, OrderedDict). A tensor that needs anything else is rejected with the name of
// that. No torch. Fuzzed: tests/fuzz/torch_pickle_fuzz.cc.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "checkpoint/torch_files/pickle.h"

namespace composer {

struct TorchTensor {
  std::string name;
  std::string dtype;    // safetensors' name
  std::string storage;  // record `data/{storage}` of the archive
  int64_t offset = 0;   // in elements of the storage
  std::vector<int64_t> shape;
  std::vector<int64_t> stride;   // in elements, at least 0
  int64_t storage_elements = 0;  // the storage's size according to the pickle; the tensor lies within it
};

struct TorchWeights {
  std::string key;                   // where the tensors were: "state/model", "" at the top
  std::vector<TorchTensor> tensors;  // in the file's order, names unique
  std::vector<std::string> skipped;  // members that are not tensors: "steps (a number)"
};

// `key` has the members to descend, joined by '/'. If empty: `state/model` (a Composer checkpoint), else `state_dict`,
// else the top. Returns kDataLoss if damaged; kInvalidArgument, naming it, for a missing member, one without tensors,
// or an unsupported tensor.
absl::StatusOr<TorchWeights> ReadTorchPickle(absl::string_view pickle, absl::string_view key);

// Reads one value of the pickle as a tensor; its name is left empty. Returns kInvalidArgument or kDataLoss as above.
absl::StatusOr<TorchTensor> ReadTorchTensor(const Pickle& pickle, const PickleValue& value);

// Returns safetensors' name of a dtype such as the global torch.float32; "" for any other value or dtype.
std::string TorchDType(const PickleValue& global);
// Returns torch's name of it, "float32"; "" if there is none.
absl::string_view TorchDTypeName(absl::string_view dtype);

}  // namespace composer
