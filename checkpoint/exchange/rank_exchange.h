// RankExchange lets the ranks agree on a save or a load, over a key-value store (the control plane), never over the
// training process group, whose collectives may be in flight.
//
// All ranks make the same calls in the same order. Values are Status-or-text, so that a rank that failed says so
// instead of leaving the others to wait. Keys are numbered by call and deleted once read, so nothing stays in the
// store. The store's keys must be this exchange's own: give each exchange a c10d::PrefixStore of its own, and a new one
// to each generation of ranks. Threads: one at a time. Besides the ranks' own errors it returns kUnavailable when the
// store fails or a rank does not answer in time.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace composer {

class RankExchange {
 public:
  // One rank needs no store.
  RankExchange() = default;
  // `timeout` must allow for the slowest rank's work between two calls (writing its part of a checkpoint, say).
  RankExchange(c10::intrusive_ptr<c10d::Store> store, int rank, int world_size,
               absl::Duration timeout = absl::Minutes(30));

  // Returns this exchange with waits that end with kCancelled soon after the flag is set, for a thread that must not
  // outlive the others.
  RankExchange GivenUpBy(std::shared_ptr<const std::atomic<bool>> flag) &&;

  int rank() const { return rank_; }
  int world_size() const { return world_size_; }

  // Returns rank 0's value, or its error, on every rank. `value` is ignored on the others.
  absl::StatusOr<std::string> Broadcast(absl::StatusOr<std::string> value);

  // Returns on rank 0 every rank's value by rank, or the error of the lowest rank that has one ("rank 1: …"), after all
  // have answered. The others do not wait and get an empty list.
  absl::StatusOr<std::vector<std::string>> Gather(absl::StatusOr<std::string> value);

 private:
  absl::Status Set(const std::string& key, const absl::StatusOr<std::string>& value);
  absl::StatusOr<std::string> Get(const std::string& key, absl::string_view who);
  absl::Status Wait(const std::string& key);  // throws what the store throws
  absl::Status Delete(const std::string& key);

  c10::intrusive_ptr<c10d::Store> store_;
  int rank_ = 0;
  int world_size_ = 1;
  absl::Duration timeout_;
  int64_t calls_ = 0;
  std::shared_ptr<const std::atomic<bool>> given_up_;
};

// Returns on every rank OK when all are OK, else the error of the lowest rank that has one.
absl::Status AgreeOn(RankExchange& exchange, const absl::Status& own);

}  // namespace composer
