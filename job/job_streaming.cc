// SPDX-License-Identifier: Apache-2.0
#include "job/job_streaming.h"

#include <algorithm>

#include "trainer/data/streaming_source.h"

namespace composer {
namespace {

StreamingOptions::Stream ReadStream(ConfigMap config, const StreamingOptions::Stream& shared) {
  StreamingOptions::Stream stream;
  stream.local = config.String("local", shared.local);
  stream.remote = config.String("remote", shared.remote);
  stream.split = config.String("split", shared.split);
  if (stream.local.empty()) config.Reject("local", "required: the folder of the shards, or for those that are fetched");
  const double proportion = config.Double("proportion", 0, {.min = 0}), repeat = config.Double("repeat", 0, {.min = 0});
  const int64_t choose = config.Int("choose", 0, {.min = 0});
  if (config.Has("proportion")) stream.proportion = proportion;
  if (config.Has("repeat")) stream.repeat = repeat;
  if (config.Has("choose")) stream.choose = choose;
  if (stream.proportion.has_value() + stream.repeat.has_value() + stream.choose.has_value() > 1)
    config.Reject("", "at most one of proportion, repeat and choose");
  return stream;
}

ShuffleAlgorithm ReadShuffle(ConfigMap& config) {
  const std::string name = config.Choice("shuffle_algo", {"naive", "py1s", "py1br", "py1e", "py2s"}, "py1e");
  return name == "naive"   ? ShuffleAlgorithm::kNaive
         : name == "py1s"  ? ShuffleAlgorithm::kPy1s
         : name == "py1br" ? ShuffleAlgorithm::kPy1br
         : name == "py1e"  ? ShuffleAlgorithm::kPy1e
                           : ShuffleAlgorithm::kPy2s;
}

BatchingMethod ReadBatching(ConfigMap& config) {
  const std::string name =
      config.Choice("batching_method", {"random", "stratified", "per_stream", "device_per_stream"}, "random");
  return name == "random"       ? BatchingMethod::kRandom
         : name == "stratified" ? BatchingMethod::kStratified
         : name == "per_stream" ? BatchingMethod::kPerStream
                                : BatchingMethod::kDevicePerStream;
}

OrderConfig ReadOrderConfig(ConfigMap& config) {
  OrderConfig order;
  order.shuffle = ReadShuffle(config);
  order.seed = static_cast<uint64_t>(config.Int("shuffle_seed", 9176, {.min = 0}));
  order.canonical_nodes = config.Int("num_canonical_nodes", 1, {.min = 1, .max = 1 << 20});
  if (config.Has("shuffle_block_size")) order.block_size = config.RequiredInt("shuffle_block_size", {.min = 1});
  order.partition = config.Choice("partition_algo", {"relaxed", "orig"}, "relaxed") == "orig"
                        ? PartitionAlgorithm::kOrig
                        : PartitionAlgorithm::kRelaxed;
  order.batching = ReadBatching(config);
  order.sampling = config.Choice("sampling_method", {"balanced", "fixed"}, "balanced") == "fixed"
                       ? SamplingMethod::kFixed
                       : SamplingMethod::kBalanced;
  order.sampling_granularity = config.Int("sampling_granularity", 1, {.min = 1});
  if (config.Has("epoch_size")) order.epoch_size = config.RequiredInt("epoch_size", {.min = 1});
  return order;
}

}  // namespace

SourceFactory ReadStreaming(ConfigMap config) {
  StreamingOptions options;
  const StreamingOptions::Stream shared = {
      .local = config.String("local", ""), .remote = config.String("remote", ""), .split = config.String("split", "")};
  for (ConfigMap stream : config.MapList("streams")) options.streams.push_back(ReadStream(stream, shared));
  if (options.streams.empty()) options.streams.push_back(shared);
  if (options.streams.front().local.empty() && !config.Has("streams")) config.Reject("local", "required, or `streams`");
  options.order = ReadOrderConfig(config);
  options.validate_hash = config.String("validate_hash", "");
  if (config.Has("cache_limit")) options.cache_limit = config.RequiredInt("cache_limit", {.min = 1});
  if (config.Has("range_bytes")) options.range_bytes = config.RequiredInt("range_bytes", {.min = 4096});
  const bool fetches = std::any_of(options.streams.begin(), options.streams.end(),
                                   [](const StreamingOptions::Stream& stream) { return !stream.remote.empty(); });
  if (options.range_bytes && !fetches) config.Reject("range_bytes", "is of shards that are fetched: give `remote`");
  if (options.range_bytes && !options.validate_hash.empty())
    config.Reject("validate_hash", "an index has the hashes of whole shards; leave out range_bytes to check them");
  options.download_retry =
      static_cast<int>(config.Int("download_retry", options.download_retry, {.min = 0, .max = 1000}));
  options.download_timeout = absl::Seconds(config.Double("download_timeout", 600, {.min = 0.001}));
  return [options](const DataContext& context) {
    StreamingOptions on_node = options;
    on_node.readers_of_cache = context.local_world_size;
    return OpenStreaming(on_node, context.open_store);
  };
}

}  // namespace composer
