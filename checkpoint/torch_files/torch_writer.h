// This writes archives of torch.save: a pickle and the storages that it refers to (pickle_writer.h), by torch's own
// writer. Read by torch_archive.h.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace composer {

// Appends one archive to an open file and returns its size; errors name `path`. Storage i is `storages[i]`, which must
// be contiguous and on the CPU. Throws what torch throws.
absl::StatusOr<int64_t> AppendTorchArchive(int fd, const std::string& path, const std::string& pickle,
                                           const std::vector<at::Tensor>& storages);

// Creates a file beside `path`, lets `write` fill it, syncs it and renames it to `path`. After an error nothing is
// left.
absl::Status WriteWholeFile(const std::string& path, const std::function<absl::Status(int fd)>& write);

}  // namespace composer
