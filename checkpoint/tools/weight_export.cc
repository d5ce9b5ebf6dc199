// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/tools/weight_export.h"

#include <torch/types.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "checkpoint/folder/verify.h"
#include "checkpoint/format/dtype.h"
#include "checkpoint/format/safetensors.h"

namespace composer {
namespace {

constexpr absl::string_view kIndexName = "model.safetensors.index.json";

bool IsFloat(absl::string_view dtype) {
  const auto type = DTypeFromName(dtype);
  return type.has_value() && at::isFloatingType(*type);
}

// Returns the dtype with which a tensor is written.
std::string TargetDType(const TensorEntry& tensor, const ExportOptions& options) {
  return options.dtype.has_value() && IsFloat(tensor.dtype) ? std::string(DTypeName(*options.dtype)) : tensor.dtype;
}

absl::Status CopyInto(const TensorEntry& entry, const Box& box, absl::string_view bytes, const at::Tensor& tensor) {
  at::Tensor part = tensor;
  for (size_t d = 0; d < box.shape.size(); ++d)
    part = part.narrow(static_cast<int64_t>(d), box.offset[d], box.shape[d]);
  void* const data = const_cast<char*>(bytes.data());  // only read
  part.copy_(at::from_blob(data, box.shape, at::TensorOptions(*DTypeFromName(entry.dtype))));
  return absl::OkStatus();
}

// W + scale B A, computed in float32 or, of float64, in that.
at::Tensor MergedWeight(const at::Tensor& weight, const at::Tensor& a, const at::Tensor& b, double scale,
                        bool transposed) {
  const at::ScalarType type = weight.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const at::Tensor product = at::mm(b.to(type), a.to(type)) * scale;
  return weight.to(type) + (transposed ? product.t() : product);
}

// Finds the tensors of a merged layer, and checks that they fit.
absl::StatusOr<ExportedFile::Merge> FindMerge(const Manifest& manifest, const MergedLayer& layer) {
  const auto find = [&](absl::string_view end) -> absl::StatusOr<size_t> {
    const std::string name = absl::StrCat(kModelPrefix, layer.name, end);
    for (size_t i = 0; i < manifest.tensors.size(); ++i) {
      if (manifest.tensors[i].name == name) return i;
    }
    return absl::DataLossError(absl::StrCat("LoRA: `", name, "` is missing"));
  };
  ExportedFile::Merge merge{0, 0, 0, layer.scale, layer.transposed};
  ASSIGN_OR_RETURN(merge.tensor, find(".weight"));
  ASSIGN_OR_RETURN(merge.a, find(".lora_A.weight"));
  ASSIGN_OR_RETURN(merge.b, find(".lora_B.weight"));
  const std::vector<int64_t>&w = manifest.tensors[merge.tensor].shape, &a = manifest.tensors[merge.a].shape,
        &b = manifest.tensors[merge.b].shape;
  const size_t out = layer.transposed ? 1 : 0;
  if (w.size() != 2 || a.size() != 2 || b.size() != 2 || a[0] != b[1] || w[out] != b[0] || w[1 - out] != a[1])
    return absl::DataLossError(absl::StrCat("LoRA: the shapes of `", layer.name, "` do not fit"));
  return merge;
}

bool IsWanted(absl::string_view name, const ExportOptions& options) {
  const auto begins = [&](const std::string& prefix) { return absl::StartsWith(name, prefix); };
  if (!options.only.empty() && std::none_of(options.only.begin(), options.only.end(), begins)) return false;
  return std::none_of(options.merged.begin(), options.merged.end(), [&](const MergedLayer& layer) {
    absl::string_view rest = name;
    return absl::ConsumePrefix(&rest, layer.name) && (rest == ".lora_A.weight" || rest == ".lora_B.weight");
  });
}

// Loads the tensors of one file, in their final dtype, by name.
absl::StatusOr<absl::flat_hash_map<std::string, at::Tensor>> LoadTensors(ObjectStore& from,
                                                                         const std::string& checkpoint,
                                                                         const Manifest& manifest,
                                                                         const ExportedFile& file,
                                                                         const ExportOptions& options) {
  Manifest part = manifest;
  part.tensors.clear();
  absl::flat_hash_map<std::string, at::Tensor> stored, result;
  std::vector<size_t> as_stored;  // what merges read
  for (const ExportedFile::Merge& merge : file.merges)
    as_stored.insert(as_stored.end(), {merge.tensor, merge.a, merge.b});
  const auto is_merged = [&](size_t i) { return std::find(as_stored.begin(), as_stored.end(), i) != as_stored.end(); };
  std::vector<size_t> read = file.tensors;
  for (const ExportedFile::Merge& merge : file.merges) read.insert(read.end(), {merge.a, merge.b});
  for (const size_t i : read) {
    const TensorEntry& entry = manifest.tensors[i];
    const auto type = DTypeFromName(is_merged(i) ? entry.dtype : TargetDType(entry, options));
    if (!type.has_value())
      return absl::FailedPreconditionError(absl::StrCat("torch has no dtype ", entry.dtype, " (", entry.name, ")"));
    stored[entry.name] = at::empty(entry.shape, at::TensorOptions(*type));
    part.tensors.push_back(entry);
  }
  RETURN_IF_ERROR(
      ReadBoxes(from, checkpoint, part,
                [&](const TensorEntry& entry, const Box& box, absl::string_view bytes, const absl::Status& check) {
                  return check.ok() && !bytes.empty() ? CopyInto(entry, box, bytes, stored[entry.name]) : check;
                }));
  for (const ExportedFile::Merge& merge : file.merges) {
    const auto of = [&](size_t i) -> at::Tensor& { return stored[manifest.tensors[i].name]; };
    at::Tensor& weight = of(merge.tensor);
    weight = MergedWeight(weight, of(merge.a), of(merge.b), merge.scale, merge.transposed)
                 .to(*DTypeFromName(TargetDType(manifest.tensors[merge.tensor], options)))
                 .contiguous();
  }
  for (size_t i = 0; i < file.tensors.size(); ++i)
    result[file.names[i]] = std::move(stored[manifest.tensors[file.tensors[i]].name]);
  return result;
}

absl::Status Store(ObjectStore& into, const std::string& key, Pieces pieces, const ExportOptions& options) {
  return options.overwrite ? into.Put(key, pieces) : into.PutIfAbsent(key, pieces);
}

absl::Status WriteFile(ObjectStore& into, const ExportedFile& file,
                       const absl::flat_hash_map<std::string, at::Tensor>& tensors, const ExportOptions& options) {
  std::vector<SafetensorsEntry> entries;
  for (const std::string& name : file.names) {
    const at::Tensor& tensor = tensors.at(name);
    entries.push_back({name, std::string(DTypeName(tensor.scalar_type())), tensor.sizes().vec()});
  }
  ASSIGN_OR_RETURN(const std::string header, LayOutSafetensors(&entries));
  std::vector<absl::string_view> pieces = {header};
  for (const SafetensorsEntry& entry : entries) {
    const at::Tensor& tensor = tensors.at(entry.name);
    pieces.push_back({static_cast<const char*>(tensor.const_data_ptr()), tensor.nbytes()});
  }
  return Store(into, file.name, pieces, options);
}

absl::Status WriteIndex(ObjectStore& into, const Manifest& manifest, const std::vector<ExportedFile>& files,
                        const ExportOptions& options) {
  int64_t total = 0;
  nlohmann::json map = nlohmann::json::object();
  for (const ExportedFile& file : files) {
    for (size_t i = 0; i < file.tensors.size(); ++i) {
      const TensorEntry& entry = manifest.tensors[file.tensors[i]];
      ASSIGN_OR_RETURN(const int64_t bytes, TensorBytes(TargetDType(entry, options), entry.shape));
      total += bytes;
      map[file.names[i]] = file.name;
    }
  }
  const nlohmann::json index = {{"metadata", {{"total_size", total}}}, {"weight_map", std::move(map)}};
  const std::string text = index.dump(2) + "\n";
  return Store(into, std::string(kIndexName), {text}, options);
}

}  // namespace

absl::StatusOr<std::vector<ExportedFile>> PlanExport(const Manifest& manifest, const ExportOptions& options) {
  std::vector<ExportedFile::Merge> merges;
  for (const MergedLayer& layer : options.merged) {
    ASSIGN_OR_RETURN(merges.emplace_back(), FindMerge(manifest, layer));
  }
  ExportedFile all;
  std::vector<std::string> before;
  std::vector<int64_t> bytes;
  for (size_t i = 0; i < manifest.tensors.size(); ++i) {
    absl::string_view name = manifest.tensors[i].name;
    if (!absl::ConsumePrefix(&name, kModelPrefix) || !IsWanted(name, options)) continue;
    before.emplace_back(name);
    all.tensors.push_back(i);
    all.names.push_back(Renamed(name, options.renames));
    ASSIGN_OR_RETURN(const int64_t size,
                     TensorBytes(TargetDType(manifest.tensors[i], options), manifest.tensors[i].shape));
    bytes.push_back(size);
  }
  if (before.empty()) return absl::InvalidArgumentError("it has no tensors of a model (`model/…`)");
  RETURN_IF_ERROR(CheckRenamed(before, all.names, options.renames));
  const std::vector<size_t> counts =
      options.file_name.empty() ? SplitBySize(bytes, options.max_shard_bytes) : std::vector<size_t>{before.size()};
  std::vector<ExportedFile> files;
  size_t first = 0;
  for (const size_t count : counts) {
    ExportedFile file;
    file.name = absl::StrFormat("model-%05d-of-%05d.safetensors", files.size() + 1, counts.size());
    if (counts.size() == 1) file.name = options.file_name.empty() ? "model.safetensors" : options.file_name;
    file.tensors.assign(all.tensors.begin() + static_cast<std::ptrdiff_t>(first),
                        all.tensors.begin() + static_cast<std::ptrdiff_t>(first + count));
    file.names.assign(all.names.begin() + static_cast<std::ptrdiff_t>(first),
                      all.names.begin() + static_cast<std::ptrdiff_t>(first + count));
    first += count;
    for (const ExportedFile::Merge& merge : merges) {
      if (std::find(file.tensors.begin(), file.tensors.end(), merge.tensor) != file.tensors.end())
        file.merges.push_back(merge);
    }
    files.push_back(std::move(file));
  }
  return files;
}

absl::StatusOr<std::vector<std::string>> ExportWeights(ObjectStore& from, const std::string& checkpoint,
                                                       ObjectStore& into, const ExportOptions& options) try {
  const at::NoGradGuard no_grad;
  ASSIGN_OR_RETURN(const Manifest manifest, ReadManifest(from, checkpoint));
  ASSIGN_OR_RETURN(const std::vector<ExportedFile> files, PlanExport(manifest, options));
  std::vector<std::string> written;
  for (const ExportedFile& file : files) {
    RETURN_IF_ERROR(CheckKey(file.name));
    ASSIGN_OR_RETURN(const auto tensors, LoadTensors(from, checkpoint, manifest, file, options));
    RETURN_IF_ERROR(WriteFile(into, file, tensors, options));
    written.push_back(file.name);
  }
  if (files.size() > 1) {
    RETURN_IF_ERROR(WriteIndex(into, manifest, files, options));
    written.emplace_back(kIndexName);
  }
  return written;
} catch (const std::exception& error) {  // from torch: out of memory
  return absl::InternalError(absl::StrCat("cannot export ", from.Location(checkpoint), ": ", error.what()));
}

}  // namespace composer
