// Verification checks that a checkpoint is whole: it reads everything that it consists of and recomputes every
// checksum. `checkpoint` is a folder of the store with a manifest in it: `ep1-ba20`. No torch.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "checkpoint/format/manifest.h"
#include "storage/object_store.h"

namespace composer {

// Returns the parsed and complete manifest. Returns kNotFound; kDataLoss with location and reason; kFailedPrecondition
// for another format version.
absl::StatusOr<Manifest> ReadManifest(ObjectStore& store, const std::string& checkpoint);

// These are the two halves of ReadManifest, for ranks of which one reads and all parse.
absl::StatusOr<std::string> ReadManifestText(ObjectStore& store, const std::string& checkpoint);
absl::StatusOr<Manifest> ParseManifestOf(ObjectStore& store, const std::string& checkpoint, absl::string_view text);

struct VerifyResult {
  Manifest manifest;                   // empty when the manifest is among the problems
  std::vector<absl::Status> problems;  // empty: valid. Each names the file and the problem
  // Not OK if it could not be checked, through no fault of its own: out of memory (kResourceExhausted), or the store
  // does not answer, or not to us (kUnavailable, kDeadlineExceeded, kPermissionDenied). The other members are then
  // empty.
  absl::Status unknown;
};
// A share is every `count`-th of the files' frames and of the runs of chunks to verify, from the `index`-th on, so that
// `count` ranks verify together. The manifest is always read.
struct VerifyShare {
  size_t index = 0;
  size_t count = 1;
  bool Has(size_t i) const { return i % count == index; }
};
enum class VerifyDepth {
  // The manifest, and the length and header of each file: what a load does not check.
  kFrame,
  // Also each tensor's bytes, which a load verifies as it reads them.
  kEverything,
};
// Several threads read a large checkpoint.
VerifyResult VerifyCheckpoint(ObjectStore& store, const std::string& checkpoint, VerifyShare share = {},
                              VerifyDepth depth = VerifyDepth::kEverything);

// The visitor gets one box of a tensor with its bytes. `check` is OK or says what is wrong with them; `bytes` is then
// empty or must not be used.
using BoxVisitor = absl::FunctionRef<absl::Status(const TensorEntry& tensor, const Box& box, absl::string_view bytes,
                                                  const absl::Status& check)>;

// Visits the boxes of all files in file order, reading runs of neighbours at once into one buffer (8 MB, or the largest
// box). Ends with the first error that the visitor returns.
absl::Status ReadBoxes(ObjectStore& store, const std::string& checkpoint, const Manifest& manifest, BoxVisitor visit);

}  // namespace composer
