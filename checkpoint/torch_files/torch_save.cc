// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/torch_files/torch_save.h"

#include <torch/types.h>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "checkpoint/format/dtype.h"

namespace composer {
namespace {

constexpr int64_t kMaxPickleBytes = int64_t{256} << 20;
// Limits tensors that share one storage: tied weights do, but a small file must not become a huge checkpoint.
constexpr int64_t kMaxSharing = 8;

}  // namespace

absl::StatusOr<TorchSave> TorchSave::Open(std::shared_ptr<const MappedFile> file) {
  const absl::string_view bytes = file->bytes();
  return OpenPart(std::move(file), bytes);
}

absl::StatusOr<TorchSave> TorchSave::OpenPart(std::shared_ptr<const MappedFile> file, absl::string_view bytes) {
  ASSIGN_OR_RETURN(TorchArchive archive, TorchArchive::Open(bytes));
  ASSIGN_OR_RETURN(const int64_t size, archive.Size("data.pkl"));
  if (size > kMaxPickleBytes) return absl::InvalidArgumentError("its data.pkl is larger than 256 MiB");
  std::string pickle(static_cast<size_t>(size), '\0');
  RETURN_IF_ERROR(archive.Read("data.pkl", absl::MakeSpan(pickle)));
  return TorchSave(std::move(file), bytes, std::move(archive), std::move(pickle));
}

absl::Status TorchSave::Fill(const std::string& name, Storage& storage) {
  const std::string record = absl::StrCat("data/", name);
  ASSIGN_OR_RETURN(const int64_t bytes, archive_.Size(record));
  total_ += bytes;
  if (total_ > static_cast<int64_t>(bytes_.size()))
    return absl::DataLossError("damaged archive: its records are larger than the file");
  storage.bytes = at::empty({bytes}, at::TensorOptions(at::kByte));
  return archive_.Read(record, {static_cast<char*>(storage.bytes.mutable_data_ptr()), static_cast<size_t>(bytes)});
}

absl::StatusOr<at::Tensor> TorchSave::Read(const TorchTensor& tensor) {
  const auto type = DTypeFromName(tensor.dtype);
  if (!type) return absl::InvalidArgumentError(absl::StrCat("`", tensor.name, "`: torch has no dtype ", tensor.dtype));
  Storage& storage = storages_[tensor.storage];
  if (!storage.bytes.defined()) RETURN_IF_ERROR(Fill(tensor.storage, storage));
  const int64_t width = static_cast<int64_t>(c10::elementSize(*type));
  if (tensor.storage_elements > storage.bytes.numel() / width)
    return absl::DataLossError(absl::StrCat("`", tensor.name, "`: its storage is shorter than it says"));
  at::Tensor view = at::empty({0}, at::TensorOptions(*type));
  view.set_(storage.bytes.storage(), tensor.offset, tensor.shape, tensor.stride);
  storage.claimed += view.numel() * width;
  if (storage.claimed / kMaxSharing > storage.bytes.numel())
    return absl::InvalidArgumentError(absl::StrCat("`", tensor.name, "`: too many tensors share its storage"));
  return view;
}

}  // namespace composer
