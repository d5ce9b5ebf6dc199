// This file has CheckComplete of manifest.h: whether the boxes of each tensor fill it exactly once.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "checkpoint/format/manifest.h"
#include "checkpoint/format/reshard.h"

namespace composer {
namespace {

bool Overlap(const Box& a, const Box& b) {
  for (size_t d = 0; d < a.offset.size(); ++d) {
    if (a.offset[d] >= b.offset[d] + b.shape[d] || b.offset[d] >= a.offset[d] + a.shape[d]) return false;
  }
  return true;
}

// Returns the dimension in which boxes begin at the most distinct places: a sweep along it has the fewest open at a
// time.
size_t SweepDimension(const std::vector<Box>& boxes) {
  size_t best = 0, most = 0;
  std::vector<int64_t> begins(boxes.size());
  for (size_t d = 0; d < boxes[0].offset.size(); ++d) {
    std::transform(boxes.begin(), boxes.end(), begins.begin(), [d](const Box& box) { return box.offset[d]; });
    std::sort(begins.begin(), begins.end());
    const auto places = static_cast<size_t>(std::unique(begins.begin(), begins.end()) - begins.begin());
    if (places > most) {
      most = places;
      best = d;
    }
  }
  return best;
}

// Compares each box only with those that begin before it ends. No box is empty.
bool AnyOverlap(const std::vector<Box>& boxes) {
  if (boxes[0].offset.empty()) return boxes.size() > 1;
  const size_t d = SweepDimension(boxes);
  std::vector<const Box*> order;
  order.reserve(boxes.size());
  for (const Box& box : boxes) order.push_back(&box);
  std::sort(order.begin(), order.end(), [d](const Box* a, const Box* b) { return a->offset[d] < b->offset[d]; });
  for (size_t i = 0; i < order.size(); ++i) {
    const int64_t end = order[i]->offset[d] + order[i]->shape[d];
    for (size_t j = i + 1; j < order.size() && order[j]->offset[d] < end; ++j) {
      if (Overlap(*order[i], *order[j])) return true;
    }
  }
  return false;
}

absl::Status CheckFilled(const TensorEntry& tensor) {
  if (tensor.boxes.empty()) return absl::DataLossError("parts of it are missing");
  if (tensor.boxes.size() == 1 && tensor.IsWhole(tensor.boxes[0])) return absl::OkStatus();
  int64_t filled = 0;
  for (const Box& box : tensor.boxes) {
    const int64_t volume = Volume(box.shape);
    if (volume == 0) return absl::DataLossError("a part of it is empty");
    if (__builtin_add_overflow(filled, volume, &filled)) return absl::DataLossError("its parts overlap");
  }
  const int64_t volume = Volume(tensor.shape);
  if (filled < volume) return absl::DataLossError("parts of it are missing");
  if (filled > volume || AnyOverlap(tensor.boxes)) return absl::DataLossError("its parts overlap");
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckComplete(const Manifest& manifest) {
  absl::flat_hash_set<absl::string_view> names;
  names.reserve(manifest.tensors.size());
  for (const TensorEntry& tensor : manifest.tensors) {
    absl::Status status = CheckFilled(tensor);
    if (!names.insert(tensor.name).second) status = absl::DataLossError("is there twice");
    if (!status.ok()) return Annotate(status, absl::StrCat("tensor \"", absl::CHexEscape(tensor.name), "\""));
  }
  names.clear();
  for (const FileEntry& file : manifest.files) {
    if (!names.insert(file.name).second)
      return absl::DataLossError(absl::StrCat("file ", file.name, " is there twice"));
  }
  return absl::OkStatus();
}

}  // namespace composer
