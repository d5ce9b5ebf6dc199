// How many samples of each stream and shard an epoch draws, and which, as mosaicml-streaming 0.13 does.
//
// A stream's weight is relative (`proportion`, of all streams or of none) or absolute: `repeat` times its samples,
// `choose` samples, or each sample once. Samples of a shard that is drawn r times and a bit come r times, then the bit:
// a random choice in rising order.
// Source: apply_weights in streaming/base/stream.py, get_sampling in sampling.py, resample_streams in dataset.py.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace composer {

struct OrderStream {
  std::vector<int64_t> shard_samples;  // samples of each shard, in the order of the index
  // At most one of these.
  std::optional<double> proportion;
  std::optional<double> repeat;
  std::optional<int64_t> choose;
};

enum class SamplingMethod {
  kBalanced,  // other samples in each epoch
  kFixed,     // the same in each
};

struct SamplingKey {
  SamplingMethod method = SamplingMethod::kBalanced;
  int64_t granularity = 1;  // samples that are drawn together from a shard
  uint64_t seed = 9176;
  int64_t epoch = 0;
  bool shuffle = true;  // without it, shards are drawn alike in each epoch
};

struct StreamShares {
  std::vector<int64_t> choose;     // samples of an epoch, for each stream
  std::vector<double> proportion;  // of the epoch
};
// `epoch_size`: samples of an epoch, only for proportions and for streams without weights. kInvalidArgument names the
// stream and what is wrong.
absl::StatusOr<StreamShares> WeighStreams(absl::Span<const OrderStream> streams, std::optional<int64_t> epoch_size,
                                          uint64_t seed);

// What an epoch draws of some streams.
struct DrawnSamples {
  std::vector<int64_t> units;  // sizes of the parts that shuffles keep together
  std::vector<uint32_t> ids;   // the samples, units one after the other; empty when all are drawn once
  uint32_t first = 0;          // of all samples, when they are

  uint32_t operator[](uint32_t place) const { return ids.empty() ? first + place : ids[place]; }
};
// Draws streams [first, last). Samples are numbered through all shards of all streams; fewer than 2^32 - 1 in all.
DrawnSamples DrawSamples(absl::Span<const OrderStream> streams, const StreamShares& shares, size_t first, size_t last,
                         const SamplingKey& key);

}  // namespace composer
