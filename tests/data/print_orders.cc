// Reads configurations of orders, one JSON object a line, and prints each epoch's sequence as a line of JSON: the ids
// with compat, then those without. tests/data/streaming_matrix.py compares them with mosaicml-streaming's.
// `print_orders time SAMPLES [SHUFFLE]` times one epoch of each shuffle instead: the first batch, one at 70 %, all
// batches.
// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/data/order_json.h"

namespace {

using composer::kNoSample;

nlohmann::json IdsOf(composer::OrderConfig config, int64_t epoch, bool compat) {
  config.compat = compat;
  const auto order = composer::Order::Create(std::move(config));
  if (!order.ok()) return std::string(order.status().message());
  const auto ids = order->Epoch(epoch);
  if (!ids.ok()) return std::string(ids.status().message());
  nlohmann::json list = nlohmann::json::array();
  for (const uint32_t id : *ids) list.push_back(id == kNoSample ? -1 : static_cast<int64_t>(id));
  return list;
}

template <typename Function>
void TimeOf(const char* what, const Function& function) {
  const auto begin = std::chrono::steady_clock::now();
  const clock_t cpu = clock();
  function();
  std::cout << " " << what << " " << std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count()
            << " s (CPU " << static_cast<double>(clock() - cpu) / CLOCKS_PER_SEC << " s)";
}

int Time(int64_t samples, const std::string& only) {
  const std::map<std::string, composer::ShuffleAlgorithm> algorithms = {{"py1s", composer::ShuffleAlgorithm::kPy1s},
                                                                        {"py1br", composer::ShuffleAlgorithm::kPy1br},
                                                                        {"py1e", composer::ShuffleAlgorithm::kPy1e},
                                                                        {"py2s", composer::ShuffleAlgorithm::kPy2s},
                                                                        {"naive", composer::ShuffleAlgorithm::kNaive}};
  for (const int64_t nodes : {1, 64}) {
    for (const auto& [name, algorithm] : algorithms) {
      if (!only.empty() && name != only) continue;
      composer::OrderConfig config;
      config.streams.push_back({.shard_samples = std::vector<int64_t>(static_cast<size_t>(samples / 50000), 50000)});
      config.shuffle = algorithm;
      config.canonical_nodes = nodes;
      const composer::Order order = composer::Order::Create(config).value();
      std::cout << name << ", " << nodes << " canonical nodes, " << order.epoch_size() << " samples:";
      std::vector<uint32_t> ids(2048);
      TimeOf("first batch", [&] { order.Open(1).value()->Read(0, absl::MakeSpan(ids)); });
      TimeOf("resume", [&] { order.Open(1).value()->Read(order.epoch_size() / 10 * 7, absl::MakeSpan(ids)); });
      TimeOf("whole", [&] {
        const auto epoch = order.Open(1).value();
        for (int64_t at = 0; at + 2048 <= epoch->size(); at += 2048) epoch->Read(at, absl::MakeSpan(ids));
      });
      std::cout << std::endl;
    }
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc >= 3 && std::string(argv[1]) == "time") return Time(std::atoll(argv[2]), argc > 3 ? argv[3] : "");
  for (std::string line; std::getline(std::cin, line);) {
    const auto json = nlohmann::json::parse(line);
    const composer::OrderConfig config = composer::OrderConfigOf(json);
    const auto epoch = json.at("epoch").get<int64_t>();
    std::cout << nlohmann::json::array({IdsOf(config, epoch, true), IdsOf(config, epoch, false)}) << std::endl;
  }
}
