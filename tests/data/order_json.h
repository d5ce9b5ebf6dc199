// An OrderConfig and an epoch as tools/make_streaming_goldens.py writes them, for the goldens and the matrix.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "data/order/order.h"

namespace composer {

template <typename T>
T ChoiceOf(const nlohmann::json& json, const char* key, const std::map<std::string, T>& choices) {
  return choices.at(json.at(key).get<std::string>());
}

inline OrderConfig OrderConfigOf(const nlohmann::json& json) {
  OrderConfig config;
  for (const nlohmann::json& stream : json.at("streams")) {
    OrderStream& added = config.streams.emplace_back();
    added.shard_samples = stream.at("shards").get<std::vector<int64_t>>();
    if (stream.contains("proportion")) added.proportion = stream["proportion"].get<double>();
    if (stream.contains("repeat")) added.repeat = stream["repeat"].get<double>();
    if (stream.contains("choose")) added.choose = stream["choose"].get<int64_t>();
  }
  if (json.contains("epoch_size")) config.epoch_size = json["epoch_size"].get<int64_t>();
  config.shuffle = ChoiceOf<ShuffleAlgorithm>(json, "shuffle",
                                              {{"none", ShuffleAlgorithm::kNone},
                                               {"naive", ShuffleAlgorithm::kNaive},
                                               {"py1s", ShuffleAlgorithm::kPy1s},
                                               {"py1br", ShuffleAlgorithm::kPy1br},
                                               {"py1e", ShuffleAlgorithm::kPy1e},
                                               {"py2s", ShuffleAlgorithm::kPy2s}});
  config.seed = json.at("seed").get<uint64_t>();
  config.canonical_nodes = json.at("canonical_nodes").get<int64_t>();
  if (json.contains("block_size")) config.block_size = json["block_size"].get<int64_t>();
  config.batching = ChoiceOf<BatchingMethod>(json, "batching",
                                             {{"random", BatchingMethod::kRandom},
                                              {"stratified", BatchingMethod::kStratified},
                                              {"per_stream", BatchingMethod::kPerStream},
                                              {"device_per_stream", BatchingMethod::kDevicePerStream}});
  config.partition = ChoiceOf<PartitionAlgorithm>(
      json, "partition", {{"orig", PartitionAlgorithm::kOrig}, {"relaxed", PartitionAlgorithm::kRelaxed}});
  config.sampling = ChoiceOf<SamplingMethod>(
      json, "sampling", {{"balanced", SamplingMethod::kBalanced}, {"fixed", SamplingMethod::kFixed}});
  config.sampling_granularity = json.at("granularity").get<int64_t>();
  config.global_batch_size = json.at("global_batch").get<int64_t>();
  config.world = {json.at("nodes").get<int64_t>(), json.at("ranks").get<int64_t>(), json.value("initial_nodes", 0)};
  return config;
}

}  // namespace composer
