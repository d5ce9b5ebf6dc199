// The job's key-value store: keys of one generation at a time, in memory, with waiters. It serves as the workers'
// c10d::Store (worker/store.h), so set, add, compare_set and delete follow c10d::HashStore and TCPStore.
//
// Errors: kAborted (the generation is over, or is not the current one), kInvalidArgument (key or value too long, Add on
// something that is not a decimal number, or past int64), kResourceExhausted (too many keys, bytes or waiters; counted
// as if every key were new, so a full store takes no writes at all).
// Each change has a revision, one more than the change before. A store whose process died is rebuilt from the newest
// changes that others remember: Restore, then Begin with `resumed`. Until then calls get kUnavailable: ask again. A
// change with an id is made once, however often it is sent (change_log.h).
// Thread-safe. Callbacks run without the lock, on the thread whose call completed them. The store uses no clock and no
// gRPC: whoever keeps the time enforces a deadline by Cancel().
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "rendezvous/store/change_log.h"

namespace composer {

class KeyValueStore {
 public:
  struct Limits {
    size_t max_key_bytes = 1 << 10;
    size_t max_value_bytes = 16 << 20;
    size_t max_keys = 1'000'000;
    size_t max_total_bytes = size_t{2} << 30;  // of keys and values
    size_t max_answer_bytes = 48 << 20;        // of one Get; must stay below the message limit (grpc_settings.h)
    size_t max_waiters = 1'000'000;
    size_t max_log_entries = 1'000'000;  // for changes that may be sent again (ChangeLog)
  };
  using Values = std::vector<std::string>;
  using Callback = std::function<void(absl::StatusOr<Values>)>;
  using WaiterId = uint64_t;
  struct Memory {  // the newest change of a key that somebody knows of
    std::string key;
    std::string value;
    uint64_t revision = 0;
    bool deleted = false;
    std::vector<MadeChange> made;  // changes that it includes, whose senders may send them again
  };
  struct Presence {
    std::vector<uint32_t> absent;  // indices into the list that was asked for, ascending
    uint64_t revision = 0;         // of the last change before this was so
  };
  // One change: its identity and its result.
  struct Change {
    ChangeId id;
    uint64_t revision = 0;              // 0: nothing changed
    std::vector<MadeChange> unsettled;  // unsettled changes of its keys, to be remembered with it
  };

  KeyValueStore() : KeyValueStore(Limits()) {}
  explicit KeyValueStore(const Limits& limits) : limits_(limits), log_(limits.max_log_entries) {}

  // Opens the store for a generation, empty or with what was restored for it; ends an earlier generation first.
  void Begin(uint64_t generation, bool resumed = false);
  // Of each key the newest change counts. Has no effect while a generation is open; leaves out what does not fit the
  // limits.
  void Restore(uint64_t generation, std::vector<Memory> memories);
  // Drops the generation's keys; its waiters and later calls get kAborted with the reason. Has no effect for another
  // generation.
  void End(uint64_t generation, absl::string_view why);

  // Like End, for whatever generation is open.
  void Close(absl::string_view why);

  // If `change` below is not null, its id is read and the rest is written. A change that was made before is answered as
  // it was then.
  // Sets all entries or none, with one revision for all.
  absl::Status Set(uint64_t generation, std::vector<std::pair<std::string, std::string>> entries,
                   Change* change = nullptr);
  // Calls back once: with the values (none when !with_values), in the order of keys, as soon as all keys are present at
  // the same time; or with an error. Returns 0 when it called back before it returned, else a handle for Cancel.
  WaiterId Get(uint64_t generation, std::vector<std::string> keys, bool with_values, Callback done);
  // Calls the waiter back with `why`; has no effect when it has already been called back.
  void Cancel(WaiterId id, const absl::Status& why);
  // Adds to the decimal counter `key` (absent: 0) and returns the sum.
  absl::StatusOr<int64_t> Add(uint64_t generation, const std::string& key, int64_t amount, Change* change = nullptr);
  // Sets desired when the value equals expected, or when the key is absent and expected is empty. Returns what then
  // holds: desired, the other value, or expected when the key is absent (c10d's answer).
  absl::StatusOr<std::string> CompareSet(uint64_t generation, const std::string& key, const std::string& expected,
                                         std::string desired, Change* change = nullptr);
  absl::StatusOr<Presence> Check(uint64_t generation, const std::vector<std::string>& keys) const;
  // Returns whether the key was present.
  absl::StatusOr<bool> Delete(uint64_t generation, const std::string& key, Change* change = nullptr);
  absl::StatusOr<int64_t> Count(uint64_t generation) const;

 private:
  struct Waiter {
    std::vector<std::string> keys;
    size_t missing = 0;  // index of the one absent key this waiter is filed under
    bool with_values = true;
    Callback done;
  };
  using Calls = std::vector<std::pair<Callback, absl::StatusOr<Values>>>;

  absl::Status CheckGeneration(uint64_t generation) const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  absl::Status CheckSizes(absl::string_view key, absl::string_view value) const;
  absl::Status CheckRoom(size_t num_keys, size_t num_bytes) const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  using Keys = std::vector<absl::string_view>;
  void Commit(const Keys& keys, int64_t sum, Change* change) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns the answer of a change that was made before and copies it to `change`; null when it is to be made now.
  absl::StatusOr<const MadeChange*> FindMade(const Keys& keys, Change* change) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TellUnsettled(const Keys& keys, Change& change) const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  void Store(const std::string& key, std::string value, Calls& calls) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Wake(const std::string& key, Calls& calls) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool FindMissing(Waiter& waiter) const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  absl::StatusOr<Values> Collect(const Waiter& waiter) const ABSL_SHARED_LOCKS_REQUIRED(mutex_);
  void EndLocked(absl::string_view why, Calls& calls) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static void Run(Calls& calls);

  const Limits limits_;
  mutable absl::Mutex mutex_;
  uint64_t generation_ ABSL_GUARDED_BY(mutex_) = 0;
  bool open_ ABSL_GUARDED_BY(mutex_) = false;
  std::string why_ended_ ABSL_GUARDED_BY(mutex_) = "no world has formed yet";
  std::unordered_map<std::string, std::string> entries_ ABSL_GUARDED_BY(mutex_);
  size_t total_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t revision_ ABSL_GUARDED_BY(mutex_) = 0;  // of the last change
  ChangeLog log_ ABSL_GUARDED_BY(mutex_);
  uint64_t restoring_ ABSL_GUARDED_BY(mutex_) = 0;  // generation of `restored_`; 0: none
  std::unordered_map<std::string, Memory> restored_ ABSL_GUARDED_BY(mutex_);
  size_t restored_bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  WaiterId last_waiter_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<WaiterId, Waiter> waiters_ ABSL_GUARDED_BY(mutex_);
  std::unordered_map<std::string, std::vector<WaiterId>> filed_ ABSL_GUARDED_BY(mutex_);  // absent key -> waiters
};

}  // namespace composer
