// Is a checkpoint whole? Everything it consists of is read and every checksum computed again.
// `checkpoint` is a folder of the store with a manifest in it: `ep1-ba20`. No torch.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "checkpoint/manifest.h"
#include "storage/object_store.h"

namespace composer {

// Parsed and complete. kNotFound; kDataLoss with location and reason; kFailedPrecondition for another format version.
absl::StatusOr<Manifest> ReadManifest(ObjectStore& store, const std::string& checkpoint);

struct VerifyResult {
  Manifest manifest;                   // empty when the manifest is among the problems
  std::vector<absl::Status> problems;  // empty: valid. Each names the file and what is wrong with it
};
VerifyResult VerifyCheckpoint(ObjectStore& store, const std::string& checkpoint);

// One box of a tensor with its bytes; `check` is OK, or what is wrong with them (then `bytes` is empty or not to be
// used).
using BoxVisitor = absl::FunctionRef<absl::Status(const TensorEntry& tensor, const Box& box, absl::string_view bytes,
                                                  const absl::Status& check)>;

// Visits the boxes of all files in file order, reading runs of neighbours at once into one buffer (8 MB, or the largest
// box). Ends with the first error that the visitor returns.
absl::Status ReadBoxes(ObjectStore& store, const std::string& checkpoint, const Manifest& manifest, BoxVisitor visit);

}  // namespace composer
