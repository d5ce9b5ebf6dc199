// Writes MDS data sets: shards and index.json are equal to MDSWriter's to the last byte (compressed shards hold the
// same bytes, but the compressors' versions may differ). Reader and format: shard.h, index.h.
//
// Each file appears whole (temporary file and rename), the index last: it commits the data set. Not thread-safe.
// Source: streaming/base/format/base/writer.py, mds/writer.py.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "data/mds/index.h"
#include "storage/object_store.h"

namespace composer {

struct MdsWriterOptions {
  std::vector<std::pair<std::string, std::string>> columns;  // name and encoding
  std::string compression;                                   // "", or as ParseCompression reads it
  std::vector<std::string> hashes;                           // sorted
  std::optional<int64_t> size_limit = 1 << 26;               // bytes of a shard, below 2^32; none: one shard
  int threads = 1;  // that hash, compress and store shards; so many are in memory besides the one that grows
  // A data set that was left unfinished: its shards, which are kept. The next sample is the one behind theirs.
  MdsIndex begun;
  // Called in order after each shard has been stored, in the thread that writes.
  std::function<absl::Status(const MdsIndex& so_far)> on_shard;
};

class MdsWriter {
 public:
  // Writes to a folder or a bucket, which must have no index.json yet (kAlreadyExists). kInvalidArgument names what is
  // wrong with the options.
  static absl::StatusOr<std::unique_ptr<MdsWriter>> Create(std::shared_ptr<ObjectStore> store,
                                                           MdsWriterOptions options);

  // The columns in the order of values: sorted by name.
  const std::vector<MdsColumn>& columns() const { return info_.columns; }
  // Adds a sample of encoded values (encoding.h); errors of earlier shards come here too. kInvalidArgument names a
  // column whose value has a wrong size or is not what its encoding says.
  absl::Status Write(absl::Span<const absl::string_view> values);
  // Waits for all shards and writes the index. Nothing may follow.
  absl::Status Finish();

 private:
  MdsWriter(std::shared_ptr<ObjectStore> store, MdsShardInfo info, MdsWriterOptions options);
  absl::Status Flush();
  absl::Status TakeStored(size_t most_pending);

  const std::shared_ptr<ObjectStore> store_;
  const MdsShardInfo info_;  // of every shard
  const std::string config_;
  const size_t threads_;
  const std::function<absl::Status(const MdsIndex&)> on_shard_;
  MdsIndex index_;
  std::deque<std::future<absl::StatusOr<MdsShardInfo>>> pending_;  // shards behind those of the index
  std::vector<uint32_t> sizes_;                                    // of the samples of the next shard
  std::string samples_;
  int64_t shard_size_ = 0;  // as MDSWriter counts it
};

}  // namespace composer
