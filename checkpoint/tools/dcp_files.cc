// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/tools/dcp_files.h"

#include <torch/types.h>

#include <map>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "base/file.h"
#include "base/printable.h"
#include "base/status_macros.h"
#include "checkpoint/format/dtype.h"
#include "checkpoint/torch_files/dcp_metadata.h"
#include "checkpoint/torch_files/torch_save.h"
#include "storage/mapped_file.h"

namespace composer {
namespace {

constexpr int64_t kMaxMetadataBytes = int64_t{256} << 20;

// The files of a folder, each opened when its first part is read.
class DcpFiles {
 public:
  DcpFiles(std::string folder, const DcpMetadata& metadata) : folder_(std::move(folder)), metadata_(metadata) {}

  absl::StatusOr<at::Tensor> Read(const TensorEntry& entry);

 private:
  absl::StatusOr<at::Tensor> ReadPart(const TensorEntry& entry, const Box& box);

  const std::string folder_;
  const DcpMetadata& metadata_;
  std::map<int, std::shared_ptr<const MappedFile>> open_;
};

absl::StatusOr<at::Tensor> DcpFiles::ReadPart(const TensorEntry& entry, const Box& box) {
  const std::string& name = metadata_.files[static_cast<size_t>(box.file)].name;
  std::shared_ptr<const MappedFile>& file = open_[box.file];
  if (file == nullptr) {
    ASSIGN_OR_RETURN(file, MappedFile::Open(JoinPath(folder_, name)));
  }
  if (box.end > static_cast<int64_t>(file->bytes().size()))
    return absl::DataLossError(absl::StrCat(Printable(name), " ends before its place"));
  const auto begin = static_cast<size_t>(box.begin), length = static_cast<size_t>(box.end - box.begin);
  ASSIGN_OR_RETURN(TorchSave save, TorchSave::OpenPart(file, file->bytes().substr(begin, length)));
  ASSIGN_OR_RETURN(const Pickle pickle, Pickle::Parse(save.pickle()));
  ASSIGN_OR_RETURN(const TorchTensor saved, ReadTorchTensor(pickle, pickle.root()));
  if (saved.dtype != entry.dtype || saved.shape != box.shape)
    return absl::DataLossError(absl::StrCat(Printable(name), " has another tensor in its place"));
  return save.Read(saved);
}

absl::StatusOr<at::Tensor> DcpFiles::Read(const TensorEntry& entry) {
  if (entry.boxes.size() == 1) return ReadPart(entry, entry.boxes[0]);
  const auto type = DTypeFromName(entry.dtype);
  if (!type) return absl::InvalidArgumentError(absl::StrCat("torch has no dtype ", entry.dtype));
  at::Tensor whole = at::empty(entry.shape, at::TensorOptions(*type));
  for (const Box& box : entry.boxes) {
    ASSIGN_OR_RETURN(const at::Tensor part, ReadPart(entry, box));
    at::Tensor into = whole;
    for (size_t d = 0; d < box.shape.size(); ++d)
      into = into.narrow(static_cast<int64_t>(d), box.offset[d], box.shape[d]);
    into.copy_(part);
  }
  return whole;
}

}  // namespace

bool IsDcpFolder(const std::string& folder) { return PathExists(JoinPath(folder, ".metadata")); }

absl::Status ReadDcpFolder(const std::string& folder, absl::string_view key, ImportedWeights* weights) {
  const std::string path = JoinPath(folder, ".metadata");
  ASSIGN_OR_RETURN(const std::string bytes, ReadFile(path, kMaxMetadataBytes));
  const absl::StatusOr<DcpMetadata> metadata = ReadDcpMetadata(bytes);
  if (!metadata.ok()) return Annotate(metadata.status(), path);
  const std::string below = key.empty() ? metadata->default_key : std::string(key);
  const std::string prefix = below.empty() ? "" : absl::StrCat(absl::StrReplaceAll(below, {{"/", "."}}), ".");
  DcpFiles files(folder, *metadata);
  std::string left_out;
  size_t left_out_count = 0;
  const auto leave_out = [&](absl::string_view name) {
    if (left_out_count++ == 0) left_out = Printable(name);
  };
  for (const TensorEntry& entry : metadata->tensors) {
    absl::string_view name = entry.name;
    if (!absl::ConsumePrefix(&name, prefix) || name.empty()) {
      leave_out(entry.name);
      continue;
    }
    absl::StatusOr<at::Tensor> tensor = files.Read(entry);
    if (!tensor.ok()) return Annotate(tensor.status(), absl::StrCat(folder, ": `", Printable(entry.name), "`"));
    weights->tensors.emplace_back(name, *std::move(tensor));
  }
  for (const std::string& other : metadata->others) leave_out(other);
  if (weights->tensors.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(folder, ": no tensors in `", Printable(below), "`",
                                                   left_out_count == 0 ? "" : absl::StrCat("; it has `", left_out, "`"),
                                                   "; --key says where they are"));
  }
  if (!below.empty()) weights->notes.push_back(absl::StrCat("tensors of `", below, "`"));
  if (left_out_count > 0) {
    weights->notes.push_back(absl::StrCat(left_out_count, " other ", left_out_count == 1 ? "entry" : "entries",
                                          " left out: `", left_out, "`", left_out_count == 1 ? "" : " …"));
  }
  return absl::OkStatus();
}

}  // namespace composer
