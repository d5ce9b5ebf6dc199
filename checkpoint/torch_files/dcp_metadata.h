// This reads `.metadata` of a folder that torch.distributed.checkpoint (DCP) wrote: which part of which tensor lies
// where in which `.distcp` file. It is a pickle, which is read as data (pickle.h). No torch. Source: torch 2.11,
// torch/distributed/checkpoint/metadata.py and filesystem.py. Fuzzed: tests/fuzz/dcp_metadata_fuzz.cc.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "checkpoint/format/manifest.h"

namespace composer {

struct DcpMetadata {
  // Files by name, and tensors with their parts: bytes [begin, end) of its file are torch.save's archive of the part
  // alone. The parts of a tensor fill it exactly, their bytes do not overlap, and each archive is large enough for its
  // part; checksums are in the archives.
  std::vector<FileEntry> files;
  std::vector<TensorEntry> tensors;
  std::vector<std::string> others;  // what is not a tensor, by name
  // Where a model's weights are taken to be: "state/model", "model", "state_dict", or "" for the top.
  std::string default_key;
};

// Returns kDataLoss if it is damaged or parts of a tensor are missing; kInvalidArgument, naming it, for what is not
// read (compression by an extension, a dtype, a file in another folder).
absl::StatusOr<DcpMetadata> ReadDcpMetadata(absl::string_view pickle);

}  // namespace composer
