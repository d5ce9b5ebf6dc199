// TorchArchive is the zip archive that torch.save writes (torch 1.6 and later): {name}/data.pkl, {name}/data/0,
// {name}/byteorder … Records are stored, not compressed, and read whole, so that libzip checks the checksum of each
// (PyTorch's own reader does not). No torch.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

struct zip;

namespace composer {

class TorchArchive {
 public:
  // `file` is the whole file, which must outlive the result. Returns kInvalidArgument if it is not such an archive,
  // saying what it is instead (TorchScript, the format before torch 1.6, big-endian); kDataLoss if it is damaged.
  static absl::StatusOr<TorchArchive> Open(absl::string_view file);

  // Returns kDataLoss if the record is missing, compressed, or longer than the file.
  absl::StatusOr<int64_t> Size(absl::string_view record) const;
  // Fills `into`, whose size must be the record's. Returns kDataLoss if the checksum does not match.
  absl::Status Read(absl::string_view record, absl::Span<char> into) const;

 private:
  struct Discard {
    void operator()(zip* archive) const;
  };
  absl::StatusOr<uint64_t> Find(absl::string_view record) const;

  absl::string_view file_;
  std::unique_ptr<zip, Discard> zip_;
  std::string folder_;  // "name/"
};

// These return whether a file starts like a zip archive or like torch.save's format before 1.6; else it may be
// safetensors.
bool LooksLikeZip(absl::string_view file);
bool LooksLikeLegacyTorch(absl::string_view file);

}  // namespace composer
