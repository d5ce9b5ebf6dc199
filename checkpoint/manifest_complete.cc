// CheckComplete of manifest.h: do the boxes of each tensor fill it, once?
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "checkpoint/manifest.h"

namespace composer {
namespace {

// Fits int64: boxes lie inside their tensor, whose size in bits does.
int64_t Volume(const std::vector<int64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

bool Overlap(const Box& a, const Box& b) {
  for (size_t d = 0; d < a.offset.size(); ++d) {
    if (a.offset[d] >= b.offset[d] + b.shape[d] || b.offset[d] >= a.offset[d] + a.shape[d]) return false;
  }
  return true;
}

// Along the first dimension, each box only against those that begin before it ends.
bool AnyOverlap(std::vector<Box> boxes) {
  std::sort(boxes.begin(), boxes.end(), [](const Box& a, const Box& b) { return a.offset < b.offset; });
  for (size_t i = 0; i < boxes.size(); ++i) {
    const int64_t end = boxes[i].offset.empty() ? 1 : boxes[i].offset[0] + boxes[i].shape[0];
    for (size_t j = i + 1; j < boxes.size(); ++j) {
      if (!boxes[j].offset.empty() && boxes[j].offset[0] >= end) break;
      if (Overlap(boxes[i], boxes[j])) return true;
    }
  }
  return false;
}

absl::Status CheckFilled(const TensorEntry& tensor) {
  int64_t filled = 0;
  for (const Box& box : tensor.boxes) {
    if (__builtin_add_overflow(filled, Volume(box.shape), &filled)) return absl::DataLossError("its parts overlap");
  }
  const int64_t volume = Volume(tensor.shape);
  if (filled < volume || tensor.boxes.empty()) return absl::DataLossError("parts of it are missing");
  if (filled > volume || (volume > 0 && AnyOverlap(tensor.boxes))) return absl::DataLossError("its parts overlap");
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckComplete(const Manifest& manifest) {
  absl::flat_hash_set<absl::string_view> names;
  for (const TensorEntry& tensor : manifest.tensors) {
    const std::string what = absl::StrCat("tensor \"", absl::CHexEscape(tensor.name), "\"");
    if (!names.insert(tensor.name).second) return absl::DataLossError(absl::StrCat(what, " is there twice"));
    RETURN_IF_ERROR(Annotate(CheckFilled(tensor), what));
  }
  names.clear();
  for (const FileEntry& file : manifest.files) {
    if (!names.insert(file.name).second)
      return absl::DataLossError(absl::StrCat("file ", file.name, " is there twice"));
  }
  return absl::OkStatus();
}

}  // namespace composer
