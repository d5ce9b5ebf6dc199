// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/tools/dcp_export.h"

#include <torch/types.h>

#include <nlohmann/json.hpp>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/file.h"
#include "base/status_macros.h"
#include "checkpoint/folder/verify.h"
#include "checkpoint/format/dtype.h"
#include "checkpoint/load/reader.h"
#include "checkpoint/tools/torch_optimizer.h"
#include "checkpoint/torch_files/pickle_writer.h"
#include "checkpoint/torch_files/torch_pickle.h"
#include "checkpoint/torch_files/torch_writer.h"

namespace composer {
namespace {

constexpr absl::string_view kDcpModule = "torch.distributed.checkpoint.metadata";
constexpr absl::string_view kDcpFile = "__0_0.distcp";

using PathPart = std::variant<std::string, int64_t>;  // a member of a dict, an item of a list

// An entry of the state dict: a tensor, or if that is undefined the pickle of a value.
struct DcpEntry {
  std::vector<PathPart> path;
  at::Tensor tensor;
  std::string value;
  int64_t begin = 0, length = 0;  // in the file

  std::string Name() const {
    return absl::StrJoin(path, ".", [](std::string* out, const PathPart& part) {
      std::visit([out](const auto& text) { absl::StrAppend(out, text); }, part);
    });
  }
};

absl::Status AddOptimizerEntries(const StateDict& state, const ComposerExportOptions& options,
                                 std::vector<DcpEntry>& entries) {
  ASSIGN_OR_RETURN(const TorchOptimizer optimizer, ReadTorchOptimizer(state, options.renames));
  for (const TorchOptimizer::Parameter& parameter : optimizer.parameters) {
    for (const auto& [slot, tensor] : parameter.slots)
      entries.push_back({{"optimizer", "state", parameter.name, slot}, tensor.contiguous(), ""});
  }
  for (size_t g = 0; g < optimizer.groups.size(); ++g) {
    for (const auto& [key, json] : optimizer.groups[g]) {
      PickleWriter pickle;
      AppendTorchValue(json, pickle);
      const auto group = static_cast<int64_t>(g);
      entries.push_back({{"optimizer", "param_groups", group, key}, at::Tensor(), std::move(pickle).Finish()});
    }
  }
  return absl::OkStatus();
}

// Writes an archive for each entry, and notes where it lies.
absl::Status WriteEntries(int fd, const std::string& path, std::vector<DcpEntry>& entries) {
  int64_t end = 0;
  for (DcpEntry& entry : entries) {
    std::string pickle = entry.value;
    std::vector<at::Tensor> storages;
    if (entry.tensor.defined()) {
      PickleWriter writer;
      RETURN_IF_ERROR(Annotate(writer.Tensor(DTypeName(entry.tensor.scalar_type()), entry.tensor.sizes(), 0),
                               absl::StrCat("`", entry.Name(), "`")));
      pickle = std::move(writer).Finish();
      storages.push_back(entry.tensor);
    }
    ASSIGN_OR_RETURN(entry.length, AppendTorchArchive(fd, path, pickle, storages));
    entry.begin = end;
    end += entry.length;
  }
  return absl::OkStatus();
}

void AppendTensorMetadata(const at::Tensor& tensor, PickleWriter& pickle) {
  const std::vector<int64_t> origin(static_cast<size_t>(tensor.dim()), 0);
  pickle.BeginObject(kDcpModule, "TensorStorageMetadata");
  pickle.BeginDict();
  pickle.String("properties");
  pickle.BeginObject(kDcpModule, "TensorProperties");
  pickle.BeginTuple();
  pickle.Global("torch", TorchDTypeName(DTypeName(tensor.scalar_type())));
  pickle.BeginCall("torch.serialization", "_get_layout");
  pickle.String("torch.strided");
  pickle.EndCall();
  pickle.Bool(false);  // requires_grad
  pickle.BeginCall(kDcpModule, "_MEM_FORMAT_ENCODING");
  pickle.Int(0);
  pickle.EndCall();
  pickle.Bool(false);  // pin_memory
  pickle.EndTuple();
  pickle.EndObject();
  pickle.String("size");
  pickle.Size(tensor.sizes());
  pickle.String("chunks");
  pickle.BeginList();
  pickle.BeginObject(kDcpModule, "ChunkStorageMetadata");
  pickle.BeginDict();
  pickle.String("offsets");
  pickle.Size(origin);
  pickle.String("sizes");
  pickle.Size(tensor.sizes());
  pickle.EndDict();
  pickle.EndObject();
  pickle.EndList();
  pickle.EndDict();
  pickle.EndObject();
}

void AppendStored(const DcpEntry& entry, PickleWriter& pickle) {
  pickle.BeginObject(kDcpModule, "MetadataIndex");
  pickle.BeginDict();
  pickle.Entry("fqn", entry.Name());
  pickle.String("index");
  entry.tensor.defined() ? pickle.Int(0) : pickle.None();
  if (entry.tensor.defined()) {
    pickle.String("offset");
    pickle.Size(std::vector<int64_t>(static_cast<size_t>(entry.tensor.dim()), 0));
  }
  pickle.EndDict();
  pickle.EndObject();
  pickle.BeginObject("torch.distributed.checkpoint.filesystem", "_StorageInfo");
  pickle.BeginDict();
  pickle.Entry("relative_path", kDcpFile);
  pickle.Entry("offset", entry.begin);
  pickle.Entry("length", entry.length);
  pickle.EndDict();
  pickle.EndObject();
}

void AppendPath(const DcpEntry& entry, PickleWriter& pickle) {
  pickle.BeginTuple();
  for (const PathPart& part : entry.path) {
    std::holds_alternative<int64_t>(part) ? pickle.Int(std::get<int64_t>(part))
                                          : pickle.String(std::get<std::string>(part));
  }
  pickle.EndTuple();
}

std::string DcpMetadataOf(const std::vector<DcpEntry>& entries) {
  PickleWriter pickle;
  pickle.BeginObject(kDcpModule, "Metadata");
  pickle.BeginDict();
  pickle.String("state_dict_metadata");
  pickle.BeginDict();
  for (const DcpEntry& entry : entries) {
    pickle.String(entry.Name());
    if (entry.tensor.defined()) {
      AppendTensorMetadata(entry.tensor, pickle);
    } else {
      pickle.BeginCall(kDcpModule, "BytesStorageMetadata");
      pickle.EndCall();
    }
  }
  pickle.EndDict();
  pickle.String("planner_data");
  pickle.BeginDict();
  for (const DcpEntry& entry : entries) {
    pickle.String(entry.Name());
    AppendPath(entry, pickle);
  }
  pickle.EndDict();
  pickle.String("storage_data");
  pickle.BeginDict();
  for (const DcpEntry& entry : entries) AppendStored(entry, pickle);
  pickle.EndDict();
  pickle.String("storage_meta");
  pickle.None();
  pickle.Entry("version", "1.0.0");
  pickle.EndDict();
  pickle.EndObject();
  return std::move(pickle).Finish();
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ExportAsDcp(ObjectStore& from, const std::string& checkpoint,
                                                     const std::string& folder,
                                                     const ComposerExportOptions& options) try {
  const at::NoGradGuard no_grad;
  const std::string metadata = JoinPath(AbsolutePath(folder), ".metadata");
  if (!options.overwrite && PathExists(metadata)) return absl::AlreadyExistsError(absl::StrCat(metadata, " is there"));
  ASSIGN_OR_RETURN(const StateDict state, LoadNewStateDict(from, checkpoint));
  std::vector<DcpEntry> entries;
  ASSIGN_OR_RETURN(const auto model, ModelForTorch(state, options));
  for (const auto& [name, tensor] : model) entries.push_back({{"model", name}, tensor.contiguous(), ""});
  if (!options.weights_only) RETURN_IF_ERROR(AddOptimizerEntries(state, options, entries));
  RETURN_IF_ERROR(MakeDirs(AbsolutePath(folder)));
  RETURN_IF_ERROR(RemoveFile(metadata));  // what it named is replaced
  const std::string path = JoinPath(AbsolutePath(folder), kDcpFile);
  RETURN_IF_ERROR(WriteWholeFile(path, [&](int fd) { return WriteEntries(fd, path, entries); }));
  RETURN_IF_ERROR(AtomicWriteFile(metadata, DcpMetadataOf(entries)));
  return NotesOfExport(state, options.weights_only);
} catch (const nlohmann::json::exception& error) {
  return absl::DataLossError(absl::StrCat(from.Location(checkpoint), ": ", error.what()));
} catch (const std::exception& error) {  // from torch: out of memory
  return absl::ResourceExhaustedError(absl::StrCat(folder, ": ", error.what()));
}

}  // namespace composer
