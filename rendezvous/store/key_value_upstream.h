// A launcher's access to the store of the rendezvous, wherever that currently is, and what the launcher keeps of it:
//   - the newest change of each key that its workers made, for a coordinator that was restarted (Reattach);
//   - the values of keys that never change (write_once), so that its workers' reads cost one read per key and node;
//   - which of its changes are on their way: they are numbered, so that one that is sent again is made once
//     (change_log.h).
// It holds one generation at a time: a newer one drops what an older one left.
// Thread-safe.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/channel.h>

#include <atomic>
#include <deque>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "proto/rendezvous.grpc.pb.h"
#include "rendezvous/store/key_value.h"

namespace composer {

class KeyValueUpstream {
 public:
  // The newest deleted keys are remembered too, because another node may remember an older value. A save deletes about
  // five keys, so this bounds what saves add to a launcher's memory (300 kB).
  static constexpr size_t kMaxDeleted = 1'000;

  // How much is remembered of keys that are present before the store is asked whether they still are: another
  // launcher's workers may have deleted them. Each key counts with its name, its value and what the maps take.
  static constexpr size_t kMinCheckedBytes = 256 << 10;
  static constexpr size_t kBytesOfAMemory = 128;

  // `sender` names this launcher's changes and no other's; at most ChangeLog::kMaxSenderBytes.
  KeyValueUpstream(std::string sender, const std::shared_ptr<grpc::Channel>& channel) : sender_(std::move(sender)) {
    SetChannel(channel);
  }

  // Sends all calls from now on through `channel`.
  void SetChannel(const std::shared_ptr<grpc::Channel>& channel);
  std::shared_ptr<proto::KeyValue::Stub> stub() const;

  // Returns the id of a new change, which is sent with it each time.
  proto::ChangeId NumberChange();
  // Declares that the change is not sent again: it was answered or given up.
  void SettleChange(uint64_t number);
  // Remembers a change that the store has acknowledged.
  void Remember(uint64_t generation, proto::KeyMemory change);
  std::vector<proto::KeyMemory> Memories(uint64_t generation) const;
  // The keys to ask the store for (Check), when what is remembered has doubled since the last time; else none. Until
  // the answer is here, Forget, there are none either.
  std::vector<std::string> TakeKeysToCheck(uint64_t generation);
  // `absent` were not in the store after its change `revision`; what is remembered of later changes stays. None: the
  // store did not answer, or has all.
  void Forget(uint64_t generation, const std::vector<std::string>& absent, uint64_t revision);

  // Returns where write-once reads of the generation wait, or nullptr when a newer generation is known.
  std::shared_ptr<KeyValueStore> Cache(uint64_t generation);
  // Returns true for the one caller that is to read the key upstream and put it into the cache.
  bool ClaimRead(uint64_t generation, const std::string& key);
  // Reports that this read failed: the next caller to ask may try.
  void ReleaseRead(uint64_t generation, const std::string& key);

  // Returns the number of keys read upstream so far by calls through this launcher.
  int64_t num_reads() const { return num_reads_; }
  void CountReads(int64_t count) { num_reads_ += count; }

 private:
  void Enter(uint64_t generation) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static size_t BytesOf(const proto::KeyMemory& memory);  // 0: of a deleted key

  const std::string sender_;
  mutable absl::Mutex mutex_;
  uint64_t last_change_ ABSL_GUARDED_BY(mutex_) = 0;
  std::set<uint64_t> open_changes_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<proto::KeyValue::Stub> stub_ ABSL_GUARDED_BY(mutex_);
  uint64_t generation_ ABSL_GUARDED_BY(mutex_) = 0;
  std::unordered_map<std::string, proto::KeyMemory> memories_ ABSL_GUARDED_BY(mutex_);
  std::deque<std::string> deleted_ ABSL_GUARDED_BY(mutex_);
  size_t kept_bytes_ ABSL_GUARDED_BY(mutex_) = 0;  // of the memories of keys that are not deleted
  size_t check_above_ ABSL_GUARDED_BY(mutex_) = kMinCheckedBytes;
  bool checking_ ABSL_GUARDED_BY(mutex_) = false;
  std::shared_ptr<KeyValueStore> cache_ ABSL_GUARDED_BY(mutex_);
  std::unordered_set<std::string> claimed_ ABSL_GUARDED_BY(mutex_);
  std::atomic<int64_t> num_reads_ = 0;
};

}  // namespace composer
