// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/store/change_log.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace composer {

absl::StatusOr<const MadeChange*> ChangeLog::Find(const ChangeId& id) {
  if (id.sender.empty()) return nullptr;
  if (id.number == 0 || id.sender.size() > kMaxSenderBytes) return absl::InvalidArgumentError("change: bad id");
  const auto known = senders_.find(id.sender);
  if (known != senders_.end()) {
    Settle(known->second, std::min(id.settled, id.number - 1));
    if (id.number <= known->second.settled) {
      return absl::AbortedError(absl::StrCat("change ", id.number, " of ", id.sender, " was answered before"));
    }
    const auto made = known->second.made.find(id.number);
    if (made != known->second.made.end()) return &made->second.change;
  }
  if (num_entries_ < max_entries_) return nullptr;
  return absl::ResourceExhaustedError(absl::StrCat("key-value store: ", num_entries_, " changes may be sent again"));
}

void ChangeLog::Add(const ChangeId& id, const std::vector<absl::string_view>& keys, uint64_t revision, int64_t sum) {
  if (id.sender.empty()) return;
  Entry* const entry = Admit({id.sender, id.number, revision, sum}, std::min(id.settled, id.number - 1));
  for (const absl::string_view key : keys) File(key, *entry);
}

std::vector<MadeChange> ChangeLog::Unsettled(absl::string_view key) const {
  std::vector<MadeChange> changes;
  const auto filed = by_key_.find(std::string(key));
  if (filed == by_key_.end()) return changes;
  for (const Entry* const entry : filed->second) changes.push_back(entry->change);
  return changes;
}

void ChangeLog::Restore(const std::string& key, const std::vector<MadeChange>& changes) {
  for (const MadeChange& change : changes) {
    const bool valid = !change.sender.empty() && change.sender.size() <= kMaxSenderBytes && change.number > 0;
    if (!valid || num_entries_ >= max_entries_) continue;
    if (Entry* const entry = Admit(change, 0); entry != nullptr) File(key, *entry);
  }
}

void ChangeLog::Clear() {
  senders_.clear();
  by_key_.clear();
  num_entries_ = 0;
}

// Returns null when the change is settled.
ChangeLog::Entry* ChangeLog::Admit(const MadeChange& change, uint64_t settled) {
  const auto [sender, is_new] = senders_.try_emplace(change.sender);
  if (is_new) {
    ++num_entries_;
    sender->second.settled = settled;
  }
  if (change.number <= sender->second.settled) return nullptr;
  const auto [entry, is_new_change] = sender->second.made.try_emplace(change.number);
  if (is_new_change) {
    ++num_entries_;
    entry->second.change = change;
  }
  return &entry->second;
}

void ChangeLog::Settle(Sender& sender, uint64_t number) {
  if (number <= sender.settled) return;
  sender.settled = number;
  const auto end = sender.made.upper_bound(number);
  for (auto it = sender.made.begin(); it != end; it = sender.made.erase(it)) {
    num_entries_ -= 1 + it->second.keys.size();
    for (const std::string& key : it->second.keys) {
      const auto filed = by_key_.find(key);
      if (filed == by_key_.end()) continue;
      std::erase(filed->second, &it->second);
      if (filed->second.empty()) by_key_.erase(filed);
    }
  }
}

void ChangeLog::File(absl::string_view key, Entry& entry) {
  std::deque<const Entry*>& entries = by_key_[std::string(key)];
  if (std::find(entries.begin(), entries.end(), &entry) != entries.end()) return;
  entries.push_back(&entry);
  if (entries.size() > kMaxUnsettledOfAKey) entries.pop_front();
  entry.keys.emplace_back(key);
  ++num_entries_;
}

}  // namespace composer
