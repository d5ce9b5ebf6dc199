// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/writer.h"

#include <torch/torch.h>

#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/status_macros.h"
#include "checkpoint/dtype.h"
#include "checkpoint/safetensors.h"
#include "storage/checksum.h"

namespace composer {
namespace {

absl::string_view Bytes(const at::Tensor& tensor) {
  return {static_cast<const char*>(tensor.const_data_ptr()), tensor.nbytes()};
}

}  // namespace

absl::StatusOr<int64_t> StoredBytes(const std::string& name, const at::Tensor& tensor) {
  if (!tensor.defined()) return absl::InvalidArgumentError(absl::StrCat("tensor ", name, " is undefined"));
  if (tensor.layout() != at::kStrided || DTypeName(tensor.scalar_type()).empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat("tensor ", name, " of type ", tensor.toString(), " cannot be stored"));
  }
  return static_cast<int64_t>(tensor.numel()) * static_cast<int64_t>(tensor.element_size());
}

HostTensor ToHost(const std::string& name, const at::Tensor& tensor) {
  const at::NoGradGuard no_grad;
  return {name, tensor.detach().resolve_conj().resolve_neg().to(at::kCPU).contiguous()};
}

absl::StatusOr<Manifest> WritePart(ObjectStore& store, const std::string& folder, int rank,
                                   absl::Span<const HostTensor> tensors) {
  Manifest part;
  if (tensors.empty()) return part;
  absl::flat_hash_map<std::string, const HostTensor*> by_name;
  std::vector<SafetensorsEntry> entries;
  for (const HostTensor& tensor : tensors) {
    if (!by_name.emplace(tensor.name, &tensor).second) {
      return absl::InvalidArgumentError(absl::StrCat("two tensors are called ", tensor.name));
    }
    entries.push_back({tensor.name, std::string(DTypeName(tensor.data.scalar_type())), tensor.data.sizes().vec()});
  }
  ASSIGN_OR_RETURN(const std::string header, LayOutSafetensors(&entries));
  std::vector<absl::string_view> pieces = {header};
  for (SafetensorsEntry& entry : entries) {
    const absl::string_view bytes = Bytes(by_name[entry.name]->data);
    pieces.push_back(bytes);
    Box box{std::vector<int64_t>(entry.shape.size(), 0), entry.shape, 0, entry.begin, entry.end, Xxh3(bytes)};
    part.tensors.push_back({std::move(entry.name), std::move(entry.dtype), std::move(entry.shape), {std::move(box)}});
  }
  const std::string name = RankFileName(rank);
  part.files.push_back({name, part.tensors.back().boxes[0].end, Xxh3(header)});
  RETURN_IF_ERROR(store.Put(JoinPath(folder, name), pieces));
  return part;
}

absl::StatusOr<Manifest> MergeParts(absl::Span<const Manifest> parts, absl::Span<const std::string> names) {
  Manifest merged;
  absl::flat_hash_map<std::string, TensorEntry> by_name;
  for (const Manifest& part : parts) {
    const int first_file = static_cast<int>(merged.files.size());
    merged.files.insert(merged.files.end(), part.files.begin(), part.files.end());
    merged.small.insert(part.small.begin(), part.small.end());  // keeps what is there
    for (TensorEntry tensor : part.tensors) {
      for (Box& box : tensor.boxes) box.file += first_file;
      const auto [known, is_new] = by_name.try_emplace(tensor.name, tensor);
      if (!is_new) known->second.boxes.insert(known->second.boxes.end(), tensor.boxes.begin(), tensor.boxes.end());
    }
  }
  for (const std::string& name : names) {
    const auto found = by_name.find(name);
    if (found == by_name.end()) return absl::InternalError(absl::StrCat("no rank wrote tensor ", name));
    merged.tensors.push_back(std::move(found->second));
    by_name.erase(found);
  }
  if (!by_name.empty()) {
    return absl::InternalError(
        absl::StrCat("a rank wrote tensor ", by_name.begin()->first, ", which rank 0 does not have"));
  }
  return merged;
}

}  // namespace composer
