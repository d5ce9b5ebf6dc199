// Records which changes of the key-value store were made and may be sent again because their answer was lost on its
// way: such a change is made once, and answered as before. Part of the store: it has no lock and no clock.
//
// A sender numbers its changes from 1 and states with each of them up to which number it sends none again (`settled`):
// these are forgotten, and one that arrives late is refused. The log thus holds the changes that are on their way, and
// the last change of each sender. A change that was evaluated without effect is not logged: it may be evaluated again.
//
// The log outlives the store's process as the keys do: the answer to a change includes the unsettled changes of the
// same keys, which the sender's launcher remembers with the new values (KeyMemory).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace composer {

struct ChangeId {
  std::string sender;  // empty: the change is never sent again
  uint64_t number = 0;
  uint64_t settled = 0;
};

struct MadeChange {
  std::string sender;
  uint64_t number = 0;
  uint64_t revision = 0;
  int64_t sum = 0;  // result of an Add
  bool operator==(const MadeChange&) const = default;
};

class ChangeLog {
 public:
  static constexpr size_t kMaxSenderBytes = 128;
  // Limits the changes per key in an answer: many senders may change one key, and the newest changes are those on their
  // way.
  static constexpr size_t kMaxUnsettledOfAKey = 64;

  // `max_entries` limits senders, changes and their keys together.
  explicit ChangeLog(size_t max_entries) : max_entries_(max_entries) {}

  // Returns the answer of a change that was made before, or null when it is to be made now. Valid until the log
  // changes. kAborted: it is settled, nobody waits for the answer. kResourceExhausted: the log is full.
  // kInvalidArgument: the number is 0, or the sender's name is too long.
  absl::StatusOr<const MadeChange*> Find(const ChangeId& id);
  // Records that a change of these keys was made.
  void Add(const ChangeId& id, const std::vector<absl::string_view>& keys, uint64_t revision, int64_t sum);
  // Returns the newest changes of the key that their senders may send again, oldest first.
  std::vector<MadeChange> Unsettled(absl::string_view key) const;
  // Takes over what somebody remembers of a key.
  void Restore(const std::string& key, const std::vector<MadeChange>& changes);
  void Clear();

 private:
  struct Entry {
    MadeChange change;
    std::vector<std::string> keys;
  };
  struct Sender {
    uint64_t settled = 0;
    std::map<uint64_t, Entry> made;  // by number, above `settled`
  };

  void Settle(Sender& sender, uint64_t number);
  Entry* Admit(const MadeChange& change, uint64_t settled);
  void File(absl::string_view key, Entry& entry);

  const size_t max_entries_;
  size_t num_entries_ = 0;
  std::unordered_map<std::string, Sender> senders_;
  std::unordered_map<std::string, std::deque<const Entry*>> by_key_;  // the newest of each key
};

}  // namespace composer
