// TorchSave is an opened file of torch.save: its pickle, and the tensors in it. Nothing of it is executed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "checkpoint/torch_files/torch_archive.h"
#include "checkpoint/torch_files/torch_pickle.h"
#include "storage/mapped_file.h"

namespace composer {

class TorchSave {
 public:
  // Returns the errors of TorchArchive::Open; kInvalidArgument if the pickle is larger than 256 MiB.
  static absl::StatusOr<TorchSave> Open(std::shared_ptr<const MappedFile> file);
  // The same for a file that lies within another: `bytes` are a part of it.
  static absl::StatusOr<TorchSave> OpenPart(std::shared_ptr<const MappedFile> file, absl::string_view bytes);

  const std::string& pickle() const { return pickle_; }
  // Returns the tensor, on the CPU; tensors share storages as they were saved. Its storage is read, and its checksum
  // compared, at the first use. Returns kDataLoss if it is damaged, kInvalidArgument for a dtype that torch lacks or
  // too many tensors in one storage.
  absl::StatusOr<at::Tensor> Read(const TorchTensor& tensor);

 private:
  struct Storage {
    at::Tensor bytes;
    int64_t claimed = 0;  // by tensors that lie in it
  };
  TorchSave(std::shared_ptr<const MappedFile> file, absl::string_view bytes, TorchArchive archive, std::string pickle)
      : file_(std::move(file)), bytes_(bytes), archive_(std::move(archive)), pickle_(std::move(pickle)) {}
  absl::Status Fill(const std::string& name, Storage& storage);

  std::shared_ptr<const MappedFile> file_;
  absl::string_view bytes_;
  TorchArchive archive_;
  std::string pickle_;
  std::map<std::string, Storage> storages_;
  int64_t total_ = 0;  // bytes of the storages that were read
};

}  // namespace composer
