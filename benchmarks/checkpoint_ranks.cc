// checkpoint_ranks FOLDER MEGABYTES SAVED LOADED [REPEATS]: SAVED ranks save a sharded state, which is loaded by SAVED
// and by LOADED ranks. This shows the cost of changing the number of ranks.
//
// The ranks are threads of one process. The state is 16 matrices, sharded as FSDP does (each rank has a range of each
// flattened tensor), and each rank keeps its share for all repeats. Prints one JSON object: for each of `save` (until
// the checkpoint is committed and synced), `same` and `reshard` (until all ranks have loaded their share) a list of
// {"wall_s"}, one per repeat. The two loads alternate in which goes first. Every load is compared bit for bit.
// SPDX-License-Identifier: Apache-2.0
#include <ATen/Parallel.h>
#include <torch/types.h>

#include <chrono>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>
#include <thread>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "checkpoint/exchange/rank_exchange.h"
#include "checkpoint/format/reshard.h"
#include "checkpoint/load/reader.h"
#include "checkpoint/save/saver.h"
#include "storage/local_store.h"

namespace composer {
namespace {

constexpr int64_t kTensors = 16, kColumns = 1000;

struct Setting {
  std::string folder;
  int64_t megabytes = 0, saved = 0, loaded = 0, repeats = 4;
};

// Returns what a rank holds of `whole`, in its own memory, filled with the values or zeros.
StateDict ShareOf(const std::vector<at::Tensor>& whole, int64_t rank, int64_t ranks, bool filled) {
  StateDict state;
  for (size_t i = 0; i < whole.size(); ++i) {
    const std::vector<int64_t> shape = whole[i].sizes().vec();
    const int64_t each = (Volume(shape) + ranks - 1) / ranks;
    const int64_t first = std::min(rank * each, Volume(shape)), last = std::min(first + each, Volume(shape));
    const at::Tensor flat = whole[i].view(-1);
    const at::Tensor own = filled ? flat.slice(0, first, last).clone() : torch::zeros({last - first});
    ShardedTensor tensor{absl::StrCat("model/layer", i, ".weight"), shape, at::kFloat, {}};
    int64_t begin = 0;
    for (BoxExtent& box : FlatRangeToBoxes(shape, first, last)) {
      const int64_t numel = Volume(box.shape);
      tensor.shards.push_back({std::move(box.offset), own.narrow(0, begin, numel).view(box.shape)});
      begin += numel;
    }
    state.sharded.push_back(std::move(tensor));
  }
  state.small = {{"timestamp", "{\"batch\":1}"}};
  return state;
}

std::vector<StateDict> SharesOf(const std::vector<at::Tensor>& whole, int64_t ranks, bool filled) {
  std::vector<StateDict> shares;
  for (int64_t rank = 0; rank < ranks; ++rank) shares.push_back(ShareOf(whole, rank, ranks, filled));
  return shares;
}

void CheckEqual(const std::vector<StateDict>& a, const std::vector<StateDict>& b) {
  for (size_t rank = 0; rank < a.size(); ++rank) {
    for (size_t i = 0; i < a[rank].sharded.size(); ++i) {
      for (size_t k = 0; k < a[rank].sharded[i].shards.size(); ++k)
        CHECK(torch::equal(a[rank].sharded[i].shards[k].data, b[rank].sharded[i].shards[k].data)) << rank;
    }
  }
}

// Returns the seconds until `body` has returned on all ranks.
double OnRanks(size_t ranks, const std::function<void(int rank, const RankExchange& exchange)>& body) {
  const auto store = c10::make_intrusive<c10d::HashStore>();
  const auto began = std::chrono::steady_clock::now();
  std::vector<std::thread> threads;
  for (int rank = 0; rank < static_cast<int>(ranks); ++rank) {
    threads.emplace_back([&, rank] {
      at::set_num_threads(1);
      body(rank, ranks == 1 ? RankExchange() : RankExchange(store, rank, static_cast<int>(ranks)));
    });
  }
  for (std::thread& thread : threads) thread.join();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
}

nlohmann::json Measure(const Setting& setting) {
  torch::manual_seed(7);
  std::vector<at::Tensor> whole;
  const int64_t rows = setting.megabytes * (1 << 20) / 4 / kTensors / kColumns;
  for (int64_t i = 0; i < kTensors; ++i) whole.push_back(torch::rand({rows, kColumns}));
  const std::vector<StateDict> saved = SharesOf(whole, setting.saved, true),
                               loaded = SharesOf(whole, setting.loaded, true);
  std::vector<StateDict> same = SharesOf(whole, setting.saved, false), other = SharesOf(whole, setting.loaded, false);
  whole.clear();
  LocalStore store(setting.folder);
  nlohmann::json result = {
      {"bytes", kTensors * rows * kColumns * 4}, {"saved", setting.saved}, {"loaded", setting.loaded}};
  for (int64_t repeat = 0; repeat < setting.repeats; ++repeat) {
    const CheckpointName step{0, repeat + 1};
    const double save = OnRanks(saved.size(), [&](int rank, const RankExchange& exchange) {
      const auto location = Saver(store, exchange, {.run_name = "ranks", .overwrite = true})
                                .Save(saved[static_cast<size_t>(rank)], step, 1);
      CHECK(location.ok()) << location.status();
    });
    result["save"].push_back({{"wall_s", save}});
    const auto load = [&](const char* name, std::vector<StateDict>& into, const std::vector<StateDict>& expected) {
      const double seconds = OnRanks(into.size(), [&](int rank, const RankExchange&) {
        const absl::Status status = LoadCheckpoint(store, step.ToString(), &into[static_cast<size_t>(rank)]);
        CHECK(status.ok()) << status;
      });
      result[name].push_back({{"wall_s", seconds}});
      CheckEqual(into, expected);
      for (StateDict& state : into) {
        for (ShardedTensor& tensor : state.sharded) {
          for (Shard& shard : tensor.shards) shard.data.zero_();
        }
      }
    };
    if (repeat % 2 == 0) load("same", same, saved);
    load("reshard", other, loaded);
    if (repeat % 2 == 1) load("same", same, saved);
    CHECK(store.DeleteTree(step.ToString()).ok());
  }
  return result;
}

}  // namespace
}  // namespace composer

int main(int argc, char** argv) {
  composer::Setting setting;
  const auto number = [&](int at, int64_t* value) {
    return argc > at && absl::SimpleAtoi(argv[at], value) && *value >= 1;
  };
  if (argc < 5 || argc > 6 || !number(2, &setting.megabytes) || !number(3, &setting.saved) ||
      !number(4, &setting.loaded) || (argc == 6 && !number(5, &setting.repeats))) {
    std::cerr << "usage: checkpoint_ranks FOLDER MEGABYTES SAVED LOADED [REPEATS]\n";
    return 64;
  }
  setting.folder = argv[1];
  std::cout << composer::Measure(setting).dump() << "\n";
  return 0;
}
