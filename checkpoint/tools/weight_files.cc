// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/tools/weight_files.h"

#include <torch/types.h>

#include <memory>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/file.h"
#include "base/printable.h"
#include "base/status_macros.h"
#include "checkpoint/format/dtype.h"
#include "checkpoint/format/safetensors.h"
#include "checkpoint/tools/dcp_files.h"
#include "checkpoint/tools/weight_names.h"
#include "checkpoint/torch_files/packed_file.h"
#include "checkpoint/torch_files/torch_archive.h"
#include "checkpoint/torch_files/torch_pickle.h"
#include "checkpoint/torch_files/torch_save.h"
#include "storage/mapped_file.h"

namespace composer {
namespace {

using File = std::shared_ptr<const MappedFile>;

constexpr int64_t kMaxIndexBytes = int64_t{256} << 20;

absl::StatusOr<at::ScalarType> TypeOf(const std::string& name, const std::string& dtype) {
  const auto type = DTypeFromName(dtype);
  if (!type) return absl::InvalidArgumentError(absl::StrCat("`", name, "`: torch has no dtype ", dtype));
  return *type;
}

absl::Status ReadSafetensors(const File& file, ImportedWeights* weights) {
  const absl::string_view bytes = file->bytes();
  const int64_t size = static_cast<int64_t>(bytes.size());
  ASSIGN_OR_RETURN(const int64_t header, SafetensorsHeaderBytes(bytes.substr(0, 8), size));
  ASSIGN_OR_RETURN(const auto entries, ParseSafetensors(bytes.substr(0, static_cast<size_t>(header)), size));
  for (const SafetensorsEntry& entry : entries) {
    ASSIGN_OR_RETURN(const at::ScalarType type, TypeOf(entry.name, entry.dtype));
    void* const data = const_cast<char*>(bytes.data() + entry.begin);  // only read
    at::Tensor tensor = entry.begin == entry.end
                            ? at::empty(entry.shape, at::TensorOptions(type))
                            : at::from_blob(data, entry.shape, [file](void*) {}, at::TensorOptions(type));
    weights->tensors.emplace_back(entry.name, std::move(tensor));
  }
  return absl::OkStatus();
}

absl::Status ReadTorchSave(const File& file, absl::string_view key, ImportedWeights* weights) {
  ASSIGN_OR_RETURN(TorchSave save, TorchSave::Open(file));
  ASSIGN_OR_RETURN(const TorchWeights found, ReadTorchPickle(save.pickle(), key));
  for (const TorchTensor& tensor : found.tensors) {
    ASSIGN_OR_RETURN(at::Tensor read, save.Read(tensor));
    weights->tensors.emplace_back(tensor.name, std::move(read));
  }
  if (!found.key.empty()) weights->notes.push_back(absl::StrCat("tensors of `", found.key, "`"));
  for (const std::string& skipped : found.skipped)
    weights->notes.push_back(absl::StrCat("not a tensor, skipped: ", skipped));
  return absl::OkStatus();
}

absl::Status ReadOne(const std::string& path, absl::string_view key, ImportedWeights* weights) {
  ASSIGN_OR_RETURN(const File file, OpenUnpacked(path));
  const bool is_torch = LooksLikeZip(file->bytes()) || LooksLikeLegacyTorch(file->bytes());
  return Annotate(is_torch ? ReadTorchSave(file, key, weights) : ReadSafetensors(file, weights), path);
}

absl::StatusOr<std::vector<std::string>> FilesOfIndex(const std::string& path) {
  ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kMaxIndexBytes));
  absl::StatusOr<std::vector<std::string>> files = FilesOfWeightIndex(text);
  if (!files.ok()) return Annotate(files.status(), path);
  for (std::string& file : *files) file = JoinPath(DirName(path), file);
  return files;
}

absl::StatusOr<std::vector<std::string>> FilesOf(const std::string& source) {
  if (absl::EndsWith(source, ".index.json")) return FilesOfIndex(source);
  if (!IsDirectory(source)) return std::vector<std::string>{source};
  for (const char* name : {"model.safetensors.index.json", "pytorch_model.bin.index.json"}) {
    if (const std::string path = JoinPath(source, name); PathExists(path)) return FilesOfIndex(path);
  }
  for (const char* name : {"model.safetensors", "pytorch_model.bin"}) {
    if (const std::string path = JoinPath(source, name); PathExists(path)) return std::vector<std::string>{path};
  }
  ASSIGN_OR_RETURN(const std::vector<std::string> names, ListDir(source));
  std::vector<std::string> found;
  for (const std::string& name : names) {
    if (absl::EndsWith(name, ".safetensors") || absl::EndsWith(name, ".pt") || absl::EndsWith(name, ".bin"))
      found.push_back(JoinPath(source, name));
  }
  if (found.size() == 1) return found;
  return absl::InvalidArgumentError(absl::StrCat(source,
                                                 found.empty() ? " has no .safetensors, .pt, .bin or .index.json file"
                                                               : " has several files of weights, name one: ",
                                                 absl::StrJoin(found, ", ")));
}

}  // namespace

absl::StatusOr<ImportedWeights> ReadWeights(const std::string& source, absl::string_view key) try {
  const at::NoGradGuard no_grad;
  ImportedWeights weights;
  if (IsDcpFolder(source)) {
    RETURN_IF_ERROR(ReadDcpFolder(source, key, &weights));
  } else {
    ASSIGN_OR_RETURN(const std::vector<std::string> files, FilesOf(source));
    for (const std::string& path : files) RETURN_IF_ERROR(ReadOne(path, key, &weights));
  }
  absl::flat_hash_set<absl::string_view> names;
  for (const auto& [name, tensor] : weights.tensors) {
    if (absl::StrContains(name, '\0'))
      return absl::DataLossError(absl::StrCat(source, ": the name of a tensor has a NUL: `", Printable(name), "`"));
    if (!names.insert(name).second) return absl::DataLossError(absl::StrCat(source, ": `", name, "` is in two files"));
  }
  if (weights.tensors.empty()) return absl::InvalidArgumentError(absl::StrCat(source, " has no tensors"));
  return weights;
} catch (const std::exception& error) {  // from torch: out of memory
  return absl::ResourceExhaustedError(absl::StrCat(source, ": ", error.what()));
}

}  // namespace composer
