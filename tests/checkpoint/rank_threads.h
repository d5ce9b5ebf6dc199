// Runs ranks as threads of one process that share a HashStore, and provides small states for them to save.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <torch/types.h>

#include <functional>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <utility>
#include <vector>

#include "checkpoint/exchange/rank_exchange.h"
#include "checkpoint/load/reader.h"
#include "checkpoint/save/saver.h"

namespace composer {

// Calls `body` once per rank, concurrently, and returns when all have finished. The store must be empty afterwards:
// returns its number of keys.
inline int64_t RunRanks(int world_size, const std::function<void(RankExchange)>& body) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  std::vector<std::thread> threads;
  for (int rank = 0; rank < world_size; ++rank) {
    threads.emplace_back([=] { body(RankExchange(store, rank, world_size, absl::Seconds(20))); });
  }
  for (std::thread& thread : threads) thread.join();
  return store->getNumKeys();
}

// Returns tensors of several types, sizes and strides, whose values follow from `seed`.
inline StateDict MakeState(int64_t seed) {
  StateDict state;
  const auto range = [seed](int64_t n) { return torch::arange(n, at::kFloat) * 0.37 + static_cast<double>(seed); };
  state.tensors = {{"model.fc.weight", range(12).view({3, 4})},
                   {"model.fc.bias", range(3).to(at::kBFloat16)},
                   {"model.conv", range(24).view({1, 2, 3, 4}).contiguous(at::MemoryFormat::ChannelsLast)},
                   {"model.steps", torch::tensor(seed, at::kLong)},
                   {"model.mask", range(5) > static_cast<double>(seed) + 0.5},
                   {"model.none", torch::empty({0, 3})},
                   {"optimizer.exp_avg", range(7).to(at::kDouble)}};
  state.small = {{"timestamp", "{\"batch\":" + std::to_string(seed) + ",\"total_wct\":1.5}"},
                 {"seed", std::to_string(seed)}};
  return state;
}

// Like MakeState, with other values: a load must overwrite them.
inline StateDict MakeTarget() {
  StateDict state = MakeState(1000);
  state.small.clear();
  return state;
}

// Returns "" when both hold the same names, types, shapes, bits and small state.
inline std::string Difference(const StateDict& a, const StateDict& b) {
  if (a.tensors.size() != b.tensors.size()) return "number of tensors";
  for (size_t i = 0; i < a.tensors.size(); ++i) {
    const auto& [name, x] = a.tensors[i];
    if (name != b.tensors[i].first) return name;
    if (x.scalar_type() != b.tensors[i].second.scalar_type() || !torch::equal(x, b.tensors[i].second)) return name;
  }
  return a.small == b.small ? "" : "small state";
}

// Saves MakeState(seed) as ep0-ba{seed} on one rank.
inline absl::StatusOr<std::string> SaveOne(ObjectStore& store, int64_t seed, SaverOptions options = {}) {
  return Saver(store, RankExchange(), std::move(options)).Save(MakeState(seed), {0, seed}, seed * 10);
}

// Returns the difference between checkpoint ep0-ba{seed} of the store and what SaveOne saved there, "" when equal.
inline std::string LoadedDifference(ObjectStore& store, int64_t seed) {
  StateDict target = MakeTarget();
  const absl::Status status = LoadCheckpoint(store, CheckpointName{0, seed}.ToString(), &target);
  return status.ok() ? Difference(MakeState(seed), target) : status.ToString();
}

}  // namespace composer
