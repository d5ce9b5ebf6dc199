// Samples out of shards in mosaicml-streaming's MDS format, in that package's order: several streams, on the node or in
// a bucket, with weights. Source: streaming.StreamingDataset of mosaicml-streaming 0.13.0.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "data/order/order.h"
#include "storage/object_store.h"
#include "trainer/core/dataset.h"

namespace composer {

struct StreamingOptions {
  struct Stream {
    std::string local;   // the folder of the shards, or of those that were fetched
    std::string remote;  // a URL or another folder; "": all shards are in `local`
    std::string split;   // a folder below both; "": none
    // At most one of these; see data/order/sampling.h.
    std::optional<double> proportion;
    std::optional<double> repeat;
    std::optional<int64_t> choose;
  };
  std::vector<Stream> streams;  // at least one
  // The order, without streams and batch size. Its shuffle is used when the loader shuffles.
  OrderConfig order;
  std::string validate_hash;           // a hash of the index that each shard must have; "": whichever a remote one has
  std::optional<int64_t> cache_limit;  // bytes of fetched shards on this node; none: unbounded
  std::optional<int64_t> range_bytes;  // shards are fetched in slices of about this size (cached_slices.h); none: whole
  int readers_of_cache = 1;            // processes of this node that share it
  int download_retry = 4;              // further tries to fetch a shard, after growing pauses
  absl::Duration download_timeout = absl::Minutes(10);  // for one fetch of a shard
};

// Sample values by encoding: numbers and arrays are tensors of their dtype (unsigned ones above 8 bits: int64, which
// must hold the value); str, json, str_int … are texts, and so are the bytes of `bytes`, `jpeg` and `png`. Lists and
// raw pixels are refused by name. A source's order (OwnOrder) serves each drawn sample once an epoch, whatever the
// number of ranks. Threads: any number. Errors name the stream.
absl::StatusOr<std::shared_ptr<const SampleSource>> OpenStreaming(const StreamingOptions& options,
                                                                  const StoreOpener& open_store);

}  // namespace composer
