// SPDX-License-Identifier: Apache-2.0
#include "data/order/sampling.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "data/order/numpy_generator.h"

namespace composer {
namespace {

constexpr double kMostDrawn = 4294967294;  // samples of an epoch: ids have 32 bits

int64_t SumOf(absl::Span<const int64_t> values) { return std::accumulate(values.begin(), values.end(), int64_t{0}); }

// numpy's sum of doubles, whose result depends on the order of additions.
double PairwiseSum(absl::Span<const double> values) {
  const size_t size = values.size();
  if (size < 8) return std::accumulate(values.begin(), values.end(), -0.0);
  if (size > 128) {
    const size_t half = size / 2 - size / 2 % 8;
    return PairwiseSum(values.first(half)) + PairwiseSum(values.subspan(half));
  }
  std::array<double, 8> r;
  std::copy_n(values.begin(), 8, r.begin());
  size_t i = 8;
  for (; i < size - size % 8; i += 8) {
    for (size_t lane = 0; lane < 8; ++lane) r[lane] += values[i + lane];
  }
  double sum = ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7]));
  for (; i < size; ++i) sum += values[i];
  return sum;
}

absl::Status CheckWeights(absl::Span<const OrderStream> streams) {
  for (size_t i = 0; i < streams.size(); ++i) {
    const OrderStream& stream = streams[i];
    const auto bad = [&](absl::string_view what) {
      return absl::InvalidArgumentError(absl::StrCat("stream ", i, " ", what));
    };
    if (std::any_of(stream.shard_samples.begin(), stream.shard_samples.end(), [](int64_t n) { return n < 0; }))
      return bad("has a shard with a negative number of samples");
    if (SumOf(stream.shard_samples) == 0) return bad("has no samples");
    if (int{stream.proportion.has_value()} + int{stream.repeat.has_value()} + int{stream.choose.has_value()} > 1)
      return bad("has more than one of proportion, repeat and choose; give one");
    if (stream.proportion.has_value() != streams[0].proportion.has_value())
      return bad("has a proportion and another stream has none; give all streams one or none");
    if (!(stream.proportion.value_or(1) > 0) || !std::isfinite(stream.proportion.value_or(1)))
      return bad("has a proportion that is not a positive number");
    if (!(stream.repeat.value_or(1) > 0) || !std::isfinite(stream.repeat.value_or(1)))
      return bad("has a repeat that is not a positive number");
    if (stream.choose.value_or(1) <= 0) return bad("has a choose that is not a positive number");
  }
  return absl::OkStatus();
}

// Divides `total` in the proportion of the weights, rounded down; what is then missing goes to streams drawn at random.
StreamShares ShareOut(int64_t total, std::vector<double> weights, uint64_t seed) {
  StreamShares shares;
  const double sum = PairwiseSum(weights);
  for (const double weight : weights) {
    shares.proportion.push_back(weight / sum);
    shares.choose.push_back(static_cast<int64_t>(static_cast<double>(total) * shares.proportion.back()));
  }
  const int64_t missing = total - SumOf(shares.choose);
  for (const int64_t i : NumpyGenerator(seed).Choice(static_cast<int64_t>(weights.size()), missing))
    ++shares.choose[static_cast<size_t>(i)];
  return shares;
}

// How many samples to draw of each shard: as often as possible all, then groups of `granularity` in random order.
std::vector<int64_t> DrawShards(absl::Span<const int64_t> shards, int64_t choose, const SamplingKey& key) {
  const int64_t all = SumOf(shards);
  std::vector<int64_t> drawn(shards.begin(), shards.end());
  for (int64_t& count : drawn) count *= choose / all;
  int64_t missing = choose % all;
  if (missing == 0) return drawn;
  std::vector<uint32_t> groups;  // the shard of each
  std::vector<int64_t> sizes;
  for (size_t i = 0; i < shards.size(); ++i) {
    for (int64_t left = shards[i]; left > 0; left -= key.granularity) {
      groups.push_back(static_cast<uint32_t>(i));
      sizes.push_back(std::min(left, key.granularity));
    }
  }
  const bool by_epoch = key.shuffle && key.method == SamplingMethod::kBalanced;
  NumpyGenerator random(key.seed + (by_epoch ? static_cast<uint64_t>(key.epoch) : 0));
  for (const uint32_t group : random.Permutation(static_cast<uint32_t>(groups.size()))) {
    const int64_t taken = std::min(missing, sizes[group]);
    drawn[groups[group]] += taken;
    missing -= taken;
    if (missing == 0) break;
  }
  return drawn;
}

// If the epoch has each sample of these streams once, sets what is drawn, which then needs no random numbers.
bool DrawAllOnce(absl::Span<const OrderStream> streams, const StreamShares& shares, size_t first, size_t last,
                 DrawnSamples& drawn) {
  int64_t begin = 0;
  for (size_t i = 0; i < first; ++i) begin += SumOf(streams[i].shard_samples);
  for (size_t i = first; i < last; ++i) {
    if (shares.choose[i] != SumOf(streams[i].shard_samples)) return false;
  }
  drawn.first = static_cast<uint32_t>(begin);
  for (size_t i = first; i < last; ++i) {
    for (const int64_t size : streams[i].shard_samples) {
      if (size > 0) drawn.units.push_back(size);
    }
  }
  return true;
}

// Appends what is drawn of a shard whose samples begin at `begin`.
void DrawOfShard(int64_t begin, int64_t size, int64_t choose, NumpyGenerator& random, DrawnSamples& drawn) {
  if (size == 0) return;
  for (int64_t round = 0; round < choose / size; ++round) {
    drawn.units.push_back(size);
    for (int64_t i = 0; i < size; ++i) drawn.ids.push_back(static_cast<uint32_t>(begin + i));
  }
  if (choose % size == 0) return;
  drawn.units.push_back(choose % size);
  std::vector<int64_t> part = random.Choice(size, choose % size);
  std::sort(part.begin(), part.end());
  for (const int64_t i : part) drawn.ids.push_back(static_cast<uint32_t>(begin + i));
}

}  // namespace

absl::StatusOr<StreamShares> WeighStreams(absl::Span<const OrderStream> streams, std::optional<int64_t> epoch_size,
                                          uint64_t seed) {
  if (streams.empty()) return absl::InvalidArgumentError("an order needs at least one stream");
  RETURN_IF_ERROR(CheckWeights(streams));
  if (epoch_size.value_or(1) <= 0) return absl::InvalidArgumentError("epoch_size must be positive");
  std::vector<double> sizes, proportions;
  int64_t all = 0;
  double most = 0;  // samples of the data, then of the epoch
  bool weighted = false;
  for (const OrderStream& stream : streams) {
    const int64_t size = SumOf(stream.shard_samples);
    all += size;
    sizes.push_back(static_cast<double>(size));
    proportions.push_back(stream.proportion.value_or(0));
    weighted |= stream.proportion.has_value() || stream.repeat.has_value() || stream.choose.has_value();
    most += stream.repeat.value_or(1) * sizes.back() + static_cast<double>(stream.choose.value_or(0));
  }
  most = std::max({most, static_cast<double>(all), static_cast<double>(epoch_size.value_or(0))});
  if (most > kMostDrawn)
    return absl::InvalidArgumentError("an epoch has 2^32 - 1 samples or more; only `shuffle: global` is for so many");
  const bool relative = streams[0].proportion.has_value();
  if (relative) return ShareOut(epoch_size.value_or(all), proportions, seed);
  if (!weighted && epoch_size.has_value()) return ShareOut(*epoch_size, sizes, seed);
  if (epoch_size.has_value())
    return absl::InvalidArgumentError("epoch_size is only for streams with proportions or without weights");
  StreamShares shares;
  for (size_t i = 0; i < streams.size(); ++i) {
    const OrderStream& stream = streams[i];
    const double repeated = stream.repeat.value_or(1) * sizes[i];
    shares.choose.push_back(stream.choose.value_or(static_cast<int64_t>(repeated)));
  }
  const auto total = static_cast<double>(SumOf(shares.choose));
  for (const int64_t choose : shares.choose) shares.proportion.push_back(static_cast<double>(choose) / total);
  return shares;
}

DrawnSamples DrawSamples(absl::Span<const OrderStream> streams, const StreamShares& shares, size_t first, size_t last,
                         const SamplingKey& key) {
  NumpyGenerator random(key.seed + (key.method == SamplingMethod::kBalanced ? static_cast<uint64_t>(key.epoch) : 0));
  DrawnSamples drawn;
  if (DrawAllOnce(streams, shares, first, last, drawn)) return drawn;
  drawn.ids.reserve(static_cast<size_t>(SumOf(absl::MakeSpan(shares.choose).subspan(first, last - first))));
  int64_t begin = 0;
  for (size_t i = 0; i < last; ++i) {
    const std::vector<int64_t>& sizes = streams[i].shard_samples;
    if (i < first) {
      begin += SumOf(sizes);
      continue;
    }
    const std::vector<int64_t> choose = DrawShards(sizes, shares.choose[i], key);
    for (size_t shard = 0; shard < sizes.size(); ++shard) {
      DrawOfShard(begin, sizes[shard], choose[shard], random, drawn);
      begin += sizes[shard];
    }
  }
  return drawn;
}

}  // namespace composer
