// This writes the model's weights of a checkpoint as Hugging Face's safetensors files, which its from_pretrained and
// the safetensors package open: `model.safetensors`, or `model-00001-of-0000N.safetensors` … and
// `model.safetensors.index.json` when they are larger than max_shard_bytes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/ScalarType.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "checkpoint/format/manifest.h"
#include "checkpoint/tools/weight_names.h"
#include "storage/object_store.h"

namespace composer {

// A layer whose weight W is written as W + scale B A, of tensors `<name>.lora_B.weight` [out, r] and
// `<name>.lora_A.weight` [r, in], which are left out (trainer/algorithms/surgery/lora.h).
struct MergedLayer {
  std::string name;
  double scale = 1;
  bool transposed = false;  // W is [in, out]
};

struct ExportOptions {
  std::string file_name;  // one file of this name; "": Hugging Face's names as above
  int64_t max_shard_bytes = 5'000'000'000;
  std::optional<at::ScalarType> dtype;  // for floating-point tensors; others keep theirs
  std::vector<RenameRule> renames;      // applied to the names without `model/`
  std::vector<MergedLayer> merged;
  std::vector<std::string> only;  // only tensors whose names begin with one of these; none: all
  bool overwrite = false;
};

struct ExportedFile {
  std::string name;
  std::vector<size_t> tensors;     // indices into the manifest's
  std::vector<std::string> names;  // of the same tensors
  struct Merge {
    size_t tensor, a, b;  // indices into the manifest's
    double scale;
    bool transposed;
  };
  std::vector<Merge> merges;
};
// Pure. Returns kInvalidArgument if there is no such tensor `model/…`, or names collide; kDataLoss when a merged layer
// lacks a tensor or its shapes do not fit.
absl::StatusOr<std::vector<ExportedFile>> PlanExport(const Manifest& manifest, const ExportOptions& options);

// Reads, checks every checksum, converts, and puts the files into `into`, the index last; returns their keys. Holds one
// file's tensors in memory. Returns kAlreadyExists when a file exists and `overwrite` is not set.
absl::StatusOr<std::vector<std::string>> ExportWeights(ObjectStore& from, const std::string& checkpoint,
                                                       ObjectStore& into, const ExportOptions& options);

}  // namespace composer
