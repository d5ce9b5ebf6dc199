// Which changes of the key-value store were made and may be sent again, because their answer was lost on its way: such a
// change is made once, and answered as before. Part of the store: no lock, no clock.
//
// A sender numbers its changes from 1 and says with each of them up to which number it sends none again (`settled`): these
// are forgotten, and one that arrives late is refused. So the log holds what is on its way, and the last change of each
// sender. A change that was evaluated without effect is not logged: it may be evaluated again.
//
// The log outlives the store's process as the keys do: with the answer to a change go the unsettled changes of the same
// keys, which the sender's launcher remembers with the new values (KeyMemory).
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
  int64_t sum = 0;  // of an Add
  bool operator==(const MadeChange&) const = default;
};

class ChangeLog {
 public:
  static constexpr size_t kMaxSenderBytes = 128;
  // Of one key, with an answer: many senders may change one key, and the newest changes are those on their way.
  static constexpr size_t kMaxUnsettledOfAKey = 64;

  // `max_entries`: senders, changes and their keys together.
  explicit ChangeLog(size_t max_entries) : max_entries_(max_entries) {}

  // The answer of a change that was made before; null: it is to be made now. Valid until the log changes. kAborted: settled,
  // nobody waits for the answer. kResourceExhausted: the log is full. kInvalidArgument: number 0, or the sender's name is
  // too long.
  absl::StatusOr<const MadeChange*> Find(const ChangeId& id);
  // A change of these keys was made.
  void Add(const ChangeId& id, const std::vector<absl::string_view>& keys, uint64_t revision, int64_t sum);
  // Changes of the key whose senders may send them again, the newest of them, oldest first.
  std::vector<MadeChange> Unsettled(absl::string_view key) const;
  // What somebody remembers of a key.
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
