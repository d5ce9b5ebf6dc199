// One uncompressed MDS shard in memory:
//
//   u32 samples; u32 offset[samples + 1] from the file's start; a configuration in JSON; the samples
//   sample: u32 sizes of the columns whose size is not fixed; the columns' values
//
// All offsets are checked when it is opened, a sample's columns when it is read. Source: mds/reader.py, writer.py.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "data/mds/index.h"

namespace composer {

// Bytes and what keeps them in memory: a mapped file, a string, a file of the cache that must not be evicted.
struct OwnedBytes {
  std::shared_ptr<const void> owner;
  absl::string_view bytes;
};

// Checks a shard's number of samples and its offsets, which `head` begins with; the shard has so many bytes. kDataLoss.
absl::Status CheckMdsHead(absl::string_view head, int64_t samples, int64_t bytes);

class MdsShard {
 public:
  // kDataLoss says what is wrong with the shard.
  static absl::StatusOr<std::shared_ptr<const MdsShard>> Open(OwnedBytes bytes, const MdsShardInfo& info);
  // The same for so many samples of the shard, which are a shard of their own, of whatever size.
  static absl::StatusOr<std::shared_ptr<const MdsShard>> OpenSlice(OwnedBytes bytes, const MdsShardInfo& info,
                                                                   int64_t samples);

  int64_t size() const { return samples_; }
  // Points columns[i] at the value of column i, for as long as the shard lives. 0 <= sample < size(); as many columns
  // as the index has. No allocation. kDataLoss for a damaged sample.
  absl::Status Read(int64_t sample, absl::Span<absl::string_view> columns) const;

 private:
  MdsShard() = default;

  OwnedBytes bytes_;
  int64_t samples_ = 0;
  std::vector<int64_t> sizes_;  // of each column; -1: each sample has its own
  size_t head_ = 0;             // bytes of sizes before a sample's values
};

}  // namespace composer
