// A ByteExchange among the threads of one process.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <barrier>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "checkpoint/exchange/byte_exchange.h"

namespace composer {

class ThreadExchange final : public ByteExchange {
 public:
  struct Shared {
    explicit Shared(int ranks) : barrier(ranks), values(static_cast<size_t>(ranks)) {}
    std::barrier<> barrier;
    const char* bytes = nullptr;
    std::vector<char> values;
    std::vector<int> colors = std::vector<int>(values.size());
    std::map<int, std::shared_ptr<Shared>> groups;  // by color; filled by rank 0
  };
  ThreadExchange(Shared& shared, int rank) : shared_(shared), rank_(rank) {}
  ThreadExchange(std::shared_ptr<Shared> own, int rank) : own_(std::move(own)), shared_(*own_), rank_(rank) {}

  int rank() const override { return rank_; }
  int world_size() const override { return static_cast<int>(shared_.values.size()); }
  absl::Status Broadcast(absl::Span<char> bytes, int root) override {
    if (rank_ == root) shared_.bytes = bytes.data();
    shared_.barrier.arrive_and_wait();
    if (rank_ != root && !bytes.empty()) std::memcpy(bytes.data(), shared_.bytes, bytes.size());
    shared_.barrier.arrive_and_wait();
    return absl::OkStatus();
  }
  absl::StatusOr<bool> All(bool value) override {
    shared_.values[static_cast<size_t>(rank_)] = value;
    shared_.barrier.arrive_and_wait();
    bool all = true;
    for (const char each : shared_.values) all = all && each != 0;
    shared_.barrier.arrive_and_wait();
    return all;
  }
  absl::StatusOr<std::unique_ptr<ByteExchange>> Split(int color) override {
    std::vector<int>& colors = shared_.colors;
    colors[static_cast<size_t>(rank_)] = color;
    shared_.barrier.arrive_and_wait();
    if (rank_ == 0) {
      shared_.groups.clear();
      for (const int c : colors)
        shared_.groups[c] = std::make_shared<Shared>(static_cast<int>(std::count(colors.begin(), colors.end(), c)));
    }
    shared_.barrier.arrive_and_wait();
    const auto before = std::count(colors.begin(), colors.begin() + rank_, color);
    return std::unique_ptr<ByteExchange>(new ThreadExchange(shared_.groups.at(color), static_cast<int>(before)));
  }

 private:
  const std::shared_ptr<Shared> own_;
  Shared& shared_;
  const int rank_;
};

inline void RunExchange(int ranks, const std::function<void(ByteExchange&)>& body) {
  ThreadExchange::Shared shared(ranks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      ThreadExchange exchange(shared, rank);
      body(exchange);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace composer
