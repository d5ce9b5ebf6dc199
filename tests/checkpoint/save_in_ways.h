// A save as the crash tests make it: synchronous or in the background of training, on one rank or several.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "checkpoint/save/async_saver.h"
#include "tests/checkpoint/rank_threads.h"

namespace composer {

struct SaveWay {
  bool async = false;
  int ranks = 1;
};

inline std::string NameOf(const SaveWay& way) {
  return (way.async ? "Async" : "Sync") + std::to_string(way.ranks) + (way.ranks == 1 ? "Rank" : "Ranks");
}

// Saves MakeState(seed) as ep0-ba{seed}. Returns to how many ranks success was reported.
inline int SaveThisWay(const SaveWay& way, ObjectStore& store, int64_t seed, const SaverOptions& options) {
  std::atomic<int> succeeded{0};
  const auto save = [&](RankExchange exchange) {
    if (!way.async) {
      succeeded += Saver(store, exchange, options).Save(MakeState(seed), {0, seed}, seed * 10).ok();
      return;
    }
    AsyncSaver saver(store, exchange, options, std::make_shared<SaveThread>());
    StateDict state = MakeState(seed);
    saver.Start(state, {0, seed}, seed * 10);
    for (auto& [name, tensor] : state.tensors) tensor.zero_();  // training continues
    succeeded += saver.Take().location.ok();
  };
  if (way.ranks == 1) {
    save(RankExchange());
  } else {
    RunRanks(way.ranks, save);
  }
  return succeeded;
}

}  // namespace composer
