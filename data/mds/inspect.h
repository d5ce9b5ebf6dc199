// What `composer data inspect`, `verify` and `merge` do with an MDS data set in a folder or a bucket.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "data/mds/index.h"
#include "storage/object_store.h"

namespace composer {

// Returns some lines: shards, samples, bytes, compression, hashes, columns.
std::string DescribeMds(const MdsIndex& index);
// Returns one value in a few words: numbers and texts as they are (texts up to `most` bytes, unprintable bytes
// escaped), dtype and shape of arrays, sizes of pictures.
std::string DescribeValue(const MdsEncoding& encoding, absl::string_view value, size_t most = 60);

struct MdsProblem {
  std::string shard;
  std::string what;
};
struct MdsVerification {
  int64_t samples = 0;               // that are good
  int64_t bytes = 0;                 // read
  std::vector<MdsProblem> problems;  // by shard; at most one each
};
// Reads every byte: sizes and all hashes of the index, the structure of shards, all samples and values. `threads` >= 1;
// `progress` is called from them, one at a time, after each shard.
MdsVerification VerifyMds(ObjectStore& store, const std::string& folder, const MdsIndex& index, int threads,
                          const std::function<void(size_t shards_done)>& progress = nullptr);

// Writes <folder>/index.json from the index.json of each folder directly below, in the order of their names, as
// mosaicml-streaming's merge_index does. kAlreadyExists when it is there; kNotFound when no folder below has one.
// Returns the number of shards.
absl::StatusOr<int64_t> MergeMds(ObjectStore& store, const std::string& folder);

}  // namespace composer
