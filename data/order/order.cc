// SPDX-License-Identifier: Apache-2.0
#include "data/order/order.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "data/order/batch_slots.h"
#include "data/order/numpy_generator.h"

namespace composer {
namespace {

constexpr int64_t kMostNodes = 1 << 20;

absl::Status CheckAtLeastOne(absl::string_view field, int64_t value, int64_t most = int64_t{1} << 40) {
  if (value >= 1 && value <= most) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(field, " is ", value, "; it must be from 1 to ", most));
}

absl::Status TooFew(size_t stream) {
  return absl::InvalidArgumentError(
      absl::StrCat("stream ", stream,
                   " has too few samples for one full batch of this batching method, which mosaicml-streaming "
                   "refuses; without compat they are served at the end of the epoch"));
}

// What a node serves of a stream: its canonical nodes' places in turn, `ranks` of each at a time.
std::vector<uint32_t> NodeSequence(const std::vector<std::vector<uint32_t>>& rows, size_t first, size_t last,
                                   size_t ranks, const std::vector<uint32_t>& ids) {
  std::vector<uint32_t> sequence;
  size_t longest = 0;
  for (size_t row = first; row < last; ++row) longest = std::max(longest, rows[row].size());
  for (size_t from = 0; from < longest; from += ranks) {
    for (size_t row = first; row < last; ++row) {
      for (size_t i = from; i < std::min(from + ranks, rows[row].size()); ++i) sequence.push_back(ids[rows[row][i]]);
    }
  }
  return sequence;
}

}  // namespace

absl::StatusOr<Order> Order::Create(OrderConfig config) {
  RETURN_IF_ERROR(CheckAtLeastOne("canonical_nodes", config.canonical_nodes, kMostNodes));
  RETURN_IF_ERROR(CheckAtLeastOne("global_batch_size", config.global_batch_size));
  RETURN_IF_ERROR(CheckAtLeastOne("shuffle_block_size", config.block_size.value_or(1)));
  RETURN_IF_ERROR(CheckAtLeastOne("sampling_granularity", config.sampling_granularity));
  RETURN_IF_ERROR(CheckAtLeastOne("physical_nodes", config.world.physical_nodes, kMostNodes));
  RETURN_IF_ERROR(CheckAtLeastOne("ranks_per_node", config.world.ranks_per_node, kMostNodes));
  RETURN_IF_ERROR(CheckAtLeastOne("initial_physical_nodes", config.world.initial_physical_nodes + 1, kMostNodes));
  ASSIGN_OR_RETURN(StreamShares shares, WeighStreams(config.streams, config.epoch_size, config.seed));
  for (size_t i = 0; i < shares.choose.size(); ++i) {
    if (shares.choose[i] > 0 || config.batching == BatchingMethod::kRandom) continue;
    return absl::InvalidArgumentError(absl::StrCat("stream ", i, " gets no sample of an epoch; raise its weight"));
  }
  if (!config.block_size) config.block_size = std::max<int64_t>(4'000'000 / config.canonical_nodes, 1 << 18);
  Order order(std::move(config), std::move(shares));
  if (order.config_.batching == BatchingMethod::kDevicePerStream &&
      order.config_.canonical_nodes % order.config_.world.physical_nodes != 0) {
    return absl::InvalidArgumentError(absl::StrCat("device_per_stream batching needs canonical_nodes (",
                                                   order.config_.canonical_nodes, ") that the physical nodes (",
                                                   order.config_.world.physical_nodes, ") divide"));
  }
  if (order.epoch_size() == 0) return absl::InvalidArgumentError("an epoch has no samples; raise repeat or choose");
  // Stratified batches do not depend on nodes.
  RETURN_IF_ERROR(order.config_.batching == BatchingMethod::kStratified ? order.Portions().status()
                                                                        : CheckPartition(order.Key()));
  return order;
}

int64_t Order::epoch_size() const { return std::accumulate(shares_.choose.begin(), shares_.choose.end(), int64_t{0}); }

absl::StatusOr<std::shared_ptr<EpochOrder>> Order::Open(int64_t epoch) const {
  if (config_.batching == BatchingMethod::kRandom && !config_.compat) {
    DrawnSamples drawn = Drawn(epoch, 0, config_.streams.size());
    ASSIGN_OR_RETURN(auto shuffle, EpochShuffle::Create(ShuffleKeyOf(epoch, 0), drawn.units));
    return MakeGeneratedEpoch(std::move(shuffle), std::move(drawn), epoch_size(), config_.canonical_nodes);
  }
  const auto make = [&] {
    switch (config_.batching) {
      case BatchingMethod::kStratified:
        return Stratified(epoch);
      case BatchingMethod::kPerStream:
        return PerStream(epoch);
      case BatchingMethod::kDevicePerStream:
        return DevicePerStream(epoch);
      default:
        return RandomWithRepeats(epoch);
    }
  };
  ASSIGN_OR_RETURN(Ids sequence, make());
  // Global batches without any sample are none.
  const auto batch = static_cast<size_t>(config_.global_batch_size);
  const auto absent = [](uint32_t id) { return id == kNoSample; };
  while (sequence.size() >= batch && sequence.size() % batch == 0 &&
         std::all_of(sequence.end() - static_cast<ptrdiff_t>(batch), sequence.end(), absent))
    sequence.resize(sequence.size() - batch);
  return MakeStoredEpoch(std::move(sequence));
}

absl::StatusOr<std::vector<uint32_t>> Order::Epoch(int64_t epoch) const {
  ASSIGN_OR_RETURN(const std::shared_ptr<EpochOrder> order, Open(epoch));
  Ids ids(static_cast<size_t>(order->size()));
  order->Read(0, absl::MakeSpan(ids));
  return ids;
}

PartitionKey Order::Key() const {
  return {config_.partition, config_.canonical_nodes, config_.global_batch_size, config_.world};
}

DrawnSamples Order::Drawn(int64_t epoch, size_t first, size_t last) const {
  const bool shuffle = config_.shuffle != ShuffleAlgorithm::kNone;
  return DrawSamples(config_.streams, shares_, first, last,
                     {config_.sampling, config_.sampling_granularity, config_.seed, epoch, shuffle});
}

ShuffleKey Order::ShuffleKeyOf(int64_t epoch, size_t first) const {
  int64_t block = *config_.block_size;
  if (config_.batching != BatchingMethod::kRandom)
    block = static_cast<int64_t>(static_cast<double>(block) * shares_.proportion[first]);
  return {config_.shuffle, config_.canonical_nodes, config_.seed, epoch, block};
}

// Returns the samples of streams [first, last) in the shuffled order, before they are interleaved.
absl::StatusOr<Order::Ids> Order::Shuffled(int64_t epoch, size_t first, size_t last) const {
  const DrawnSamples drawn = Drawn(epoch, first, last);
  auto ids = ShuffledIds(ShuffleKeyOf(epoch, first), drawn.units);
  if (!ids.ok()) return ids;
  for (uint32_t& id : *ids) id = drawn[id];
  return ids;
}

absl::StatusOr<Order::Ids> Order::Sequence(Ids shuffled, const PartitionKey& key) const {
  if (!config_.compat && config_.canonical_nodes == 1) return shuffled;
  const auto size = static_cast<int64_t>(shuffled.size());
  Ids sequence;
  if (config_.compat) {
    ASSIGN_OR_RETURN(sequence, InterleaveWithRepeats(size, key));
  } else {
    sequence = InterleaveOnce(size, config_.canonical_nodes);
  }
  for (uint32_t& place : sequence) place = place == kNoSample ? kNoSample : shuffled[place];
  return sequence;
}

absl::StatusOr<Order::Ids> Order::RandomWithRepeats(int64_t epoch) const {
  ASSIGN_OR_RETURN(Ids shuffled, Shuffled(epoch, 0, config_.streams.size()));
  return Sequence(std::move(shuffled), Key());
}

// Returns how many samples of a global batch are of each stream.
absl::StatusOr<std::vector<int64_t>> Order::Portions() const {
  const auto batch = static_cast<double>(config_.global_batch_size);
  std::vector<int64_t> portions;
  std::vector<std::pair<double, size_t>> rests;
  for (size_t i = 0; i < config_.streams.size(); ++i) {
    const double share = batch * shares_.proportion[i];
    portions.push_back(static_cast<int64_t>(share));
    rests.emplace_back(share - static_cast<double>(portions.back()), i);
  }
  std::sort(rests.rbegin(), rests.rend());
  int64_t missing = config_.global_batch_size - std::accumulate(portions.begin(), portions.end(), int64_t{0});
  for (size_t i = 0; i < rests.size() && missing > 0; ++i, --missing) ++portions[rests[i].second];
  for (size_t i = 0; i < portions.size(); ++i) {
    if (portions[i] > 0) continue;
    return absl::InvalidArgumentError(absl::StrCat("stream ", i, " has no place in a global batch of ",
                                                   config_.global_batch_size,
                                                   " samples with stratified batching; raise its weight or the batch"));
  }
  return portions;
}

absl::StatusOr<Order::Ids> Order::Stratified(int64_t epoch) const {
  ASSIGN_OR_RETURN(const std::vector<int64_t> portions, Portions());
  PartitionKey key = Key();
  key.world.physical_nodes = 1;
  key.global_batch = key.world.ranks_per_node;
  std::vector<Ids> streams;
  int64_t full = INT64_MAX;  // batches
  for (size_t i = 0; i < portions.size(); ++i) {
    ASSIGN_OR_RETURN(Ids shuffled, Shuffled(epoch, i, i + 1));
    ASSIGN_OR_RETURN(Ids ids, Sequence(std::move(shuffled), key));
    full = std::min(full, static_cast<int64_t>(ids.size()) / portions[i]);
    streams.push_back(std::move(ids));
  }
  Ids sequence;
  bool more = true;
  for (int64_t batch = 0; more && (!config_.compat || batch < full); ++batch) {
    more = false;
    for (size_t i = 0; i < streams.size(); ++i) {
      const auto size = static_cast<int64_t>(streams[i].size());
      const int64_t from = std::min(batch * portions[i], size), to = std::min(from + portions[i], size);
      sequence.insert(sequence.end(), streams[i].begin() + from, streams[i].begin() + to);
      more |= to < size;
    }
  }
  return sequence;
}

int64_t Order::BatchesSeed(int64_t epoch) const {
  const bool by_epoch = config_.shuffle != ShuffleAlgorithm::kNone && config_.sampling == SamplingMethod::kBalanced;
  return static_cast<int64_t>(config_.seed) + (by_epoch ? epoch : 0);
}

absl::StatusOr<Order::Ids> Order::PerStream(int64_t epoch) const {
  std::vector<StreamPart> parts;
  for (size_t i = 0; i < config_.streams.size(); ++i) {
    ASSIGN_OR_RETURN(Ids shuffled, Shuffled(epoch, i, i + 1));
    const int64_t batches = FullBatches(static_cast<int64_t>(shuffled.size()), Key());
    if (config_.compat && batches == 0) return TooFew(i);
    ASSIGN_OR_RETURN(Ids ids, Sequence(std::move(shuffled), Key()));
    parts.push_back({std::move(ids), batches});
  }
  NumpyGenerator random(static_cast<uint64_t>(BatchesSeed(epoch)));
  Ids sequence, rest;
  for (const Ids& batch : DrawBatches(parts, config_.global_batch_size, random, rest))
    sequence.insert(sequence.end(), batch.begin(), batch.end());
  if (!config_.compat) sequence.insert(sequence.end(), rest.begin(), rest.end());
  return sequence;
}

absl::StatusOr<Order::Ids> Order::DevicePerStream(int64_t epoch) const {
  const int64_t nodes = config_.world.physical_nodes, ranks = config_.world.ranks_per_node;
  const int64_t batch = config_.global_batch_size / (nodes * ranks), rows_of_node = config_.canonical_nodes / nodes;
  std::vector<std::vector<StreamPart>> parts(static_cast<size_t>(nodes));  // [node][stream]
  for (size_t i = 0; i < config_.streams.size(); ++i) {
    ASSIGN_OR_RETURN(const Ids ids, Shuffled(epoch, i, i + 1));
    const auto size = static_cast<int64_t>(ids.size());
    const auto rows = CanonicalParts(size, config_.canonical_nodes, ranks, config_.compat);
    const int64_t row = (size + config_.canonical_nodes - 1) / config_.canonical_nodes;
    const int64_t batches = rows_of_node * ((row + ranks - 1) / ranks * ranks) / batch;
    if (config_.compat && batches == 0) return TooFew(i);
    for (int64_t node = 0; node < nodes; ++node) {
      const auto first = static_cast<size_t>(node * rows_of_node);
      parts[static_cast<size_t>(node)].push_back(
          {NodeSequence(rows, first, first + static_cast<size_t>(rows_of_node), static_cast<size_t>(ranks), ids),
           batches});
    }
  }
  NumpyGenerator random(static_cast<uint64_t>(BatchesSeed(epoch)));
  std::vector<std::vector<Ids>> batches;
  Ids rest;
  size_t most = 0;
  for (const std::vector<StreamPart>& streams : parts) {
    batches.push_back(DrawBatches(streams, batch, random, rest));
    most = std::max(most, batches.back().size());
  }
  if (config_.compat) most += static_cast<size_t>(nodes * ranks) - most % static_cast<size_t>(nodes * ranks);
  Ids sequence;
  for (size_t i = 0; i < most; ++i) {
    for (const std::vector<Ids>& node : batches) {
      if (i < node.size()) {
        sequence.insert(sequence.end(), node[i].begin(), node[i].end());
      } else if (config_.compat) {
        sequence.insert(sequence.end(), static_cast<size_t>(batch), kNoSample);
      }
    }
  }
  if (!config_.compat) sequence.insert(sequence.end(), rest.begin(), rest.end());
  return sequence;
}

}  // namespace composer
