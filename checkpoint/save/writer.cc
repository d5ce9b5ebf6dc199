// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/save/writer.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <iterator>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/status_macros.h"
#include "checkpoint/format/dtype.h"
#include "checkpoint/format/layout.h"
#include "checkpoint/format/reshard.h"
#include "checkpoint/format/safetensors.h"
#include "storage/checksum.h"

namespace composer {
namespace {

absl::string_view Bytes(const at::Tensor& tensor) {
  return {static_cast<const char*>(tensor.const_data_ptr()), tensor.nbytes()};
}

// Returns the manifest's entry for a part, whose place in the file is not yet known.
TensorEntry EntryOf(const HostTensor& part) {
  const std::vector<int64_t> shape = part.data.sizes().vec();
  const bool whole = part.shape.empty();
  Box box{whole ? std::vector<int64_t>(shape.size(), 0) : part.offset, shape};
  return {part.name, std::string(DTypeName(part.data.scalar_type())), whole ? shape : part.shape, {std::move(box)}};
}

absl::Status AddShards(const StateDict& state, int rank, std::vector<TensorPart>* parts) {
  for (const ShardedTensor& tensor : state.sharded) {
    if (Volume(tensor.shape) == 0) {  // no box has a value, yet the tensor must exist
      if (rank == 0) parts->push_back({tensor.name, at::empty(tensor.shape, at::TensorOptions(tensor.dtype))});
      continue;
    }
    for (const Shard& shard : tensor.shards) {
      RETURN_IF_ERROR(CheckShard(tensor, shard));
      if (tensor.writes && shard.data.numel() > 0)
        parts->push_back({tensor.name, shard.data, shard.offset, tensor.shape});
    }
  }
  return absl::OkStatus();
}

}  // namespace

HostTensor ToHost(const std::string& name, const at::Tensor& tensor) { return ToHost(TensorPart{name, tensor}); }

HostTensor ToHost(const TensorPart& part) {
  const at::NoGradGuard no_grad;
  return {part.name, part.data.detach().resolve_conj().resolve_neg().to(at::kCPU).contiguous(), part.offset,
          part.shape};
}

int64_t ShardedBytes(const StateDict& state) {
  int64_t bytes = 0;
  for (const ShardedTensor& tensor : state.sharded) {
    if (!tensor.writes) continue;
    for (const Shard& shard : tensor.shards) bytes += static_cast<int64_t>(shard.data.nbytes());
  }
  return bytes;
}

absl::StatusOr<std::vector<TensorPart>> OwnParts(const StateDict& state, int rank, int world_size,
                                                 absl::Span<const int64_t> sharded_bytes) {
  std::vector<int64_t> bytes;
  bytes.reserve(state.tensors.size());
  for (const auto& [name, tensor] : state.tensors) {
    ASSIGN_OR_RETURN(const int64_t size, StoredBytes(name, tensor));
    bytes.push_back(size);
  }
  const std::vector<int> owner = BalanceByBytes(bytes, world_size, sharded_bytes);
  std::vector<TensorPart> parts;
  for (size_t i = 0; i < owner.size(); ++i) {
    if (owner[i] == rank) parts.push_back({state.tensors[i].first, state.tensors[i].second});
  }
  RETURN_IF_ERROR(AddShards(state, rank, &parts));
  return parts;
}

std::vector<std::string> TensorNames(const StateDict& state) {
  std::vector<std::string> names;
  names.reserve(state.tensors.size() + state.sharded.size());
  for (const auto& [name, tensor] : state.tensors) names.push_back(name);
  for (const ShardedTensor& tensor : state.sharded) names.push_back(tensor.name);
  return names;
}

absl::StatusOr<Manifest> WritePart(ObjectStore& store, const std::string& folder, int rank,
                                   absl::Span<const HostTensor> tensors) {
  Manifest part;
  if (tensors.empty()) return part;
  std::vector<TensorEntry> described;
  std::vector<SafetensorsEntry> entries;
  described.reserve(tensors.size());
  entries.reserve(tensors.size());
  for (const HostTensor& tensor : tensors) {
    described.push_back(EntryOf(tensor));
    const TensorEntry& entry = described.back();
    entries.push_back({BoxName(entry, entry.boxes[0]), entry.dtype, entry.boxes[0].shape});
  }
  absl::flat_hash_map<std::string, size_t> by_name;  // the layout has an order of its own
  by_name.reserve(entries.size());
  for (size_t i = 0; i < entries.size(); ++i) {
    if (!by_name.emplace(entries[i].name, i).second)
      return absl::InvalidArgumentError(absl::StrCat("two tensors are called ", entries[i].name));
  }
  ASSIGN_OR_RETURN(const std::string header, LayOutSafetensors(&entries));
  std::vector<absl::string_view> pieces = {header};
  pieces.reserve(entries.size() + 1);
  part.tensors.reserve(entries.size());
  for (const SafetensorsEntry& entry : entries) {
    const size_t source = by_name.find(entry.name)->second;
    const absl::string_view bytes = Bytes(tensors[source].data);
    pieces.push_back(bytes);
    TensorEntry& tensor = described[source];
    Box& box = tensor.boxes[0];
    box.begin = entry.begin;
    box.end = entry.end;
    box.xxh3 = ChunkChecksums(bytes);
    part.tensors.push_back(std::move(tensor));
  }
  const std::string name = RankFileName(rank);
  part.files.push_back({name, entries.back().end, Xxh3(header)});
  RETURN_IF_ERROR(store.Put(JoinPath(folder, name), pieces));
  return part;
}

absl::StatusOr<Manifest> MergeParts(std::vector<Manifest> parts, absl::Span<const std::string> names) {
  Manifest merged;
  absl::flat_hash_map<absl::string_view, size_t> index;
  index.reserve(names.size());
  merged.tensors.resize(names.size());
  for (size_t i = 0; i < names.size(); ++i) {
    if (!index.emplace(names[i], i).second)
      return absl::InvalidArgumentError(absl::StrCat("two tensors are called ", names[i]));
  }
  for (Manifest& part : parts) {
    const int first_file = static_cast<int>(merged.files.size());
    std::move(part.files.begin(), part.files.end(), std::back_inserter(merged.files));
    merged.small.merge(part.small);  // keeps existing keys
    for (TensorEntry& tensor : part.tensors) {
      for (Box& box : tensor.boxes) box.file += first_file;
      const auto found = index.find(tensor.name);
      if (found == index.end())
        return absl::InternalError(absl::StrCat("a rank wrote tensor ", tensor.name, ", which rank 0 does not have"));
      TensorEntry& known = merged.tensors[found->second];
      if (known.boxes.empty()) {
        known = std::move(tensor);
        continue;
      }
      if (known.dtype != tensor.dtype || known.shape != tensor.shape)
        return absl::InternalError(
            absl::StrCat("two ranks wrote tensor ", tensor.name, " with other dtypes or shapes"));
      std::move(tensor.boxes.begin(), tensor.boxes.end(), std::back_inserter(known.boxes));
    }
  }
  for (size_t i = 0; i < names.size(); ++i) {
    if (merged.tensors[i].boxes.empty()) return absl::InternalError(absl::StrCat("no rank wrote tensor ", names[i]));
  }
  return merged;
}

}  // namespace composer
