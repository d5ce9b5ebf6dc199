// The order in which an epoch's samples are served: mosaicml-streaming 0.13's, for any number of ranks.
//
// An order is one sequence of sample ids for each epoch; global batch n is its places [n*G, (n+1)*G), whoever reads
// them. It depends only on OrderConfig. With the same seed, epoch, canonical nodes, block size and global batch, the
// package's full global batches have the same samples (and, on one rank, in the same order) until it repeats samples to
// fill up its partitions. Without `compat` nothing is repeated: each drawn copy is served once, and what fills no
// batch of a batching method comes at the end. With it, the sequence is the package's for a given world, repeats,
// dropped batches and all.
//
//   random             batches of samples of all streams, as they come.
//   stratified         each batch has the same number of samples of each stream: its share of G rounded down, plus one
//                      for those with the largest rests (of equal rests, the later stream first, as numpy sorts).
//   per_stream         each global batch is of one stream; batches come in random order.
//   device_per_stream  each rank's part of a global batch is of one stream; canonical nodes stay together.
// The last two make their batches for `world`; without `compat`, batches that the package fills with repeats are left
// out of its sequence, and their samples come at the end.
//
// Source: streaming/base/batching/*.py.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "data/order/epoch_order.h"
#include "data/order/partition.h"
#include "data/order/sampling.h"
#include "data/order/shuffle.h"

namespace composer {

enum class BatchingMethod { kRandom, kStratified, kPerStream, kDevicePerStream };

struct OrderConfig {
  std::vector<OrderStream> streams;
  std::optional<int64_t> epoch_size;  // samples; see WeighStreams
  ShuffleAlgorithm shuffle = ShuffleAlgorithm::kPy1e;
  uint64_t seed = 9176;
  int64_t canonical_nodes = 1;
  std::optional<int64_t> block_size;  // samples; by default max(4,000,000 / canonical_nodes, 2^18)
  BatchingMethod batching = BatchingMethod::kRandom;
  PartitionAlgorithm partition = PartitionAlgorithm::kRelaxed;
  SamplingMethod sampling = SamplingMethod::kBalanced;
  int64_t sampling_granularity = 1;
  int64_t global_batch_size = 1;
  OrderWorld world;
  bool compat = false;
};

// Thread-safe; a value.
class Order {
 public:
  // kInvalidArgument names the field, its value and what is allowed.
  static absl::StatusOr<Order> Create(OrderConfig config);

  // Returns the epoch's sequence of sample ids, which count samples through all shards of all streams. With `compat`,
  // kNoSample at a place means that the rank gets one sample fewer. Random batching without `compat` is computed where
  // it is read: opening takes about 2 ns a sample, and memory does not grow with the epoch (but 4 bytes a sample for
  // `naive`, and for streams with weights); otherwise 4 bytes a sample, and at most as much again while it opens.
  // kInvalidArgument when a stream of a batching method has too few samples (only with `compat`) or a block is too
  // small.
  absl::StatusOr<std::shared_ptr<EpochOrder>> Open(int64_t epoch) const;
  // Returns the whole sequence; py1e takes about 20 ns a sample.
  absl::StatusOr<std::vector<uint32_t>> Epoch(int64_t epoch) const;

  const OrderConfig& config() const { return config_; }
  // Samples that an epoch draws, copies included.
  int64_t epoch_size() const;

 private:
  using Ids = std::vector<uint32_t>;
  Order(OrderConfig config, StreamShares shares) : config_(std::move(config)), shares_(std::move(shares)) {}

  PartitionKey Key() const;
  int64_t BatchesSeed(int64_t epoch) const;
  DrawnSamples Drawn(int64_t epoch, size_t first, size_t last) const;
  ShuffleKey ShuffleKeyOf(int64_t epoch, size_t first) const;
  absl::StatusOr<Ids> Shuffled(int64_t epoch, size_t first, size_t last) const;
  absl::StatusOr<Ids> Sequence(Ids shuffled, const PartitionKey& key) const;
  absl::StatusOr<std::vector<int64_t>> Portions() const;
  absl::StatusOr<Ids> RandomWithRepeats(int64_t epoch) const;
  absl::StatusOr<Ids> Stratified(int64_t epoch) const;
  absl::StatusOr<Ids> PerStream(int64_t epoch) const;
  absl::StatusOr<Ids> DevicePerStream(int64_t epoch) const;

  OrderConfig config_;
  StreamShares shares_;
};

}  // namespace composer
