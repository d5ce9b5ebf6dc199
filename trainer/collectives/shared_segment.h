// SharedSegment is memory that the ranks of one host share, and the rounds in which they pass data through it.
//
// Each rank has two slots. In a round a rank writes its own slot of the round's parity, announces it (Publish), waits
// until all others have done so (Await) and reads theirs. It may write a slot again two rounds later: by then all have
// published the round in between, so all have finished reading. Waiting is a short spin, then a futex; a rank that
// ends, in whatever way, is noticed by those that wait. The memory is a memfd that the first rank creates and the
// others open under /proc, so no file is left behind.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "trainer/collectives/collective_call.h"

namespace composer {

// Threads: one, except that Abort may be called from any.
class SharedSegment {
 public:
  static constexpr int kMaxRanks = 64;

  struct Options {
    int rank = 0;
    int size = 1;                               // in [1, kMaxRanks]
    int64_t slot_bytes = 256 << 10;             // multiple of 4096
    absl::Duration timeout = absl::Minutes(5);  // of one wait
  };

  // The first rank creates the memory. ticket() tells the others where it is; it is valid while this process lives and
  // has not called CloseTicket.
  static absl::StatusOr<std::unique_ptr<SharedSegment>> Create(const Options& options);
  // Returns kFailedPrecondition if the ticket is of another host, or its memory cannot be opened from here.
  static absl::StatusOr<std::unique_ptr<SharedSegment>> Open(const Options& options, const std::string& ticket);
  // Tells the others at once that this rank has left.
  ~SharedSegment();
  SharedSegment(const SharedSegment&) = delete;
  SharedSegment& operator=(const SharedSegment&) = delete;

  const std::string& ticket() const { return ticket_; }
  void CloseTicket();
  // Must be called when all ranks have opened the memory; from then on processes that end are noticed.
  void WatchPeers();

  int rank() const { return options_.rank; }
  int size() const { return options_.size; }
  int64_t slot_bytes() const { return options_.slot_bytes; }

  // own_slot is this rank's slot of the coming round, to be written before Publish; slot is any rank's slot of the
  // round that Await has finished.
  std::byte* own_slot() { return Slot(options_.rank, round_ + 1); }
  const std::byte* slot(int rank) const { return Slot(rank, round_); }

  // Records the collective that the coming rounds belong to.
  void Announce(const CollectiveCall& call);
  void Publish();
  // Blocks until all ranks have published this round. Throws StatusError: kUnavailable naming the rank that is gone (or
  // when Abort was called), kDeadlineExceeded with each rank's last collective.
  void Await();
  // Returns what each rank announced for the round that Await has just seen, or its last call.
  std::vector<CollectiveCall> Calls() const;
  // Returns whether all of Calls() equal this rank's call, without allocating.
  bool AllAgree() const;

  void Abort() { aborted_.store(true, std::memory_order_relaxed); }

 private:
  struct Header;
  struct Peer;  // what a rank writes, on cache lines of its own

  explicit SharedSegment(const Options& options);
  static int64_t Bytes(const Options& options);
  absl::Status Map(int fd);
  Peer& peer(int rank) const;
  std::byte* Slot(int rank, uint32_t round) const;
  bool Arrived(int rank) const;
  void AwaitSlowly(int rank);
  // Throws if the rank can no longer arrive.
  void CheckAlive(int rank) const;

  const Options options_;
  void* memory_ = nullptr;
  int fd_ = -1;  // of the first rank, until CloseTicket
  std::string ticket_;
  std::vector<int> pidfds_;  // by rank; -1: this process, or not watched
  int pauses_ = 0;           // spins before a wait sleeps
  uint32_t round_ = 0;       // the last one published
  std::atomic<bool> aborted_{false};
};

}  // namespace composer
