// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/store/key_value.h"

#include <algorithm>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace composer {

void KeyValueStore::Begin(uint64_t generation, bool resumed) {
  Calls calls;
  {
    absl::MutexLock lock(&mutex_);
    EndLocked(absl::StrCat("generation ", generation, " has begun"), calls);
    generation_ = generation;
    open_ = true;
    if (resumed && restoring_ == generation) {
      for (auto& [key, memory] : restored_) {
        revision_ = std::max(revision_, memory.revision);
        log_.Restore(key, memory.made);
        if (memory.deleted) continue;
        total_bytes_ += key.size() + memory.value.size();
        entries_[key] = std::move(memory.value);
      }
    }
    restoring_ = restored_bytes_ = 0;
    restored_.clear();
  }
  Run(calls);
}

void KeyValueStore::Restore(uint64_t generation, std::vector<Memory> memories) {
  absl::MutexLock lock(&mutex_);
  if (open_ || generation == 0) return;
  if (generation != restoring_) {
    restored_.clear();
    restored_bytes_ = 0;
    restoring_ = generation;
  }
  for (Memory& memory : memories) {
    const size_t num_bytes = memory.key.size() + memory.value.size();
    if (!CheckSizes(memory.key, memory.value).ok() || restored_.size() >= limits_.max_keys ||
        restored_bytes_ + num_bytes > limits_.max_total_bytes) {
      continue;
    }
    Memory& known = restored_[memory.key];
    if (known.revision >= memory.revision && !known.key.empty()) continue;
    restored_bytes_ += num_bytes - known.key.size() - known.value.size();
    known = std::move(memory);
  }
}

void KeyValueStore::Commit(const Keys& keys, int64_t sum, Change* change) {
  ++revision_;
  if (change == nullptr) return;
  log_.Add(change->id, keys, revision_, sum);
  change->revision = revision_;
  TellUnsettled(keys, *change);
}

absl::StatusOr<const MadeChange*> KeyValueStore::FindMade(const Keys& keys, Change* change) {
  if (change == nullptr) return nullptr;
  change->revision = 0;
  ASSIGN_OR_RETURN(const MadeChange* const made, log_.Find(change->id));
  if (made == nullptr) return nullptr;
  change->revision = made->revision;
  TellUnsettled(keys, *change);
  return made;
}

void KeyValueStore::TellUnsettled(const Keys& keys, Change& change) const {
  change.unsettled.clear();
  for (const absl::string_view key : keys) {
    for (MadeChange& made : log_.Unsettled(key)) {
      const bool itself = made.sender == change.id.sender && made.number == change.id.number;
      if (!itself) change.unsettled.push_back(std::move(made));
    }
  }
}

void KeyValueStore::End(uint64_t generation, absl::string_view why) {
  Calls calls;
  {
    absl::MutexLock lock(&mutex_);
    if (!open_ || generation != generation_) return;
    EndLocked(why, calls);
  }
  Run(calls);
}

void KeyValueStore::Close(absl::string_view why) {
  Calls calls;
  {
    absl::MutexLock lock(&mutex_);
    EndLocked(why, calls);
  }
  Run(calls);
}

void KeyValueStore::EndLocked(absl::string_view why, Calls& calls) {
  open_ = false;
  why_ended_ = std::string(why);
  entries_.clear();
  log_.Clear();
  filed_.clear();
  total_bytes_ = 0;
  for (auto& [id, waiter] : waiters_) calls.emplace_back(std::move(waiter.done), CheckGeneration(generation_));
  waiters_.clear();
}

absl::Status KeyValueStore::Set(uint64_t generation, std::vector<std::pair<std::string, std::string>> entries,
                                Change* change) {
  for (const auto& [key, value] : entries) RETURN_IF_ERROR(CheckSizes(key, value));
  Calls calls;
  {
    absl::MutexLock lock(&mutex_);
    RETURN_IF_ERROR(CheckGeneration(generation));
    Keys keys;
    size_t num_bytes = 0;
    for (const auto& [key, value] : entries) {
      keys.push_back(key);
      num_bytes += key.size() + value.size();
    }
    ASSIGN_OR_RETURN(const MadeChange* const made, FindMade(keys, change));
    if (made != nullptr) return absl::OkStatus();
    RETURN_IF_ERROR(CheckRoom(entries.size(), num_bytes));
    for (auto& [key, value] : entries) Store(key, std::move(value), calls);
    Commit(keys, 0, change);
  }
  Run(calls);
  return absl::OkStatus();
}

absl::StatusOr<int64_t> KeyValueStore::Add(uint64_t generation, const std::string& key, int64_t amount,
                                           Change* change) {
  RETURN_IF_ERROR(CheckSizes(key, ""));
  Calls calls;
  int64_t sum = 0;
  {
    absl::MutexLock lock(&mutex_);
    RETURN_IF_ERROR(CheckGeneration(generation));
    ASSIGN_OR_RETURN(const MadeChange* const made, FindMade({key}, change));
    if (made != nullptr) return made->sum;
    const auto it = entries_.find(key);
    int64_t current = 0;
    if (it != entries_.end() && !absl::SimpleAtoi(it->second, &current)) {
      return absl::InvalidArgumentError(
          absl::StrCat("add: the value of key \"", absl::CHexEscape(key), "\" is not a number"));
    }
    if (__builtin_add_overflow(current, amount, &sum)) {
      return absl::InvalidArgumentError(absl::StrCat("add: ", current, " + ", amount, " is past the range of int64"));
    }
    std::string text = absl::StrCat(sum);
    RETURN_IF_ERROR(CheckRoom(1, key.size() + text.size()));
    Store(key, std::move(text), calls);
    Commit({key}, sum, change);
  }
  Run(calls);
  return sum;
}

absl::StatusOr<std::string> KeyValueStore::CompareSet(uint64_t generation, const std::string& key,
                                                      const std::string& expected, std::string desired,
                                                      Change* change) {
  RETURN_IF_ERROR(CheckSizes(key, desired));
  Calls calls;
  {
    absl::MutexLock lock(&mutex_);
    RETURN_IF_ERROR(CheckGeneration(generation));
    ASSIGN_OR_RETURN(const MadeChange* const made, FindMade({key}, change));
    if (made != nullptr) return desired;
    const auto it = entries_.find(key);
    if (it == entries_.end() && !expected.empty()) return expected;
    if (it != entries_.end() && it->second != expected) return it->second;
    RETURN_IF_ERROR(CheckRoom(1, key.size() + desired.size()));
    Store(key, desired, calls);
    Commit({key}, 0, change);
  }
  Run(calls);
  return desired;
}

absl::StatusOr<KeyValueStore::Presence> KeyValueStore::Check(uint64_t generation,
                                                             const std::vector<std::string>& keys) const {
  absl::MutexLock lock(&mutex_);
  RETURN_IF_ERROR(CheckGeneration(generation));
  Presence presence{{}, revision_};
  for (size_t i = 0; i < keys.size(); ++i) {
    if (entries_.count(keys[i]) == 0) presence.absent.push_back(static_cast<uint32_t>(i));
  }
  return presence;
}

absl::StatusOr<bool> KeyValueStore::Delete(uint64_t generation, const std::string& key, Change* change) {
  absl::MutexLock lock(&mutex_);
  RETURN_IF_ERROR(CheckGeneration(generation));
  ASSIGN_OR_RETURN(const MadeChange* const made, FindMade({key}, change));
  if (made != nullptr) return true;
  const auto it = entries_.find(key);
  if (it == entries_.end()) return false;
  total_bytes_ -= it->first.size() + it->second.size();
  entries_.erase(it);
  Commit({key}, 0, change);
  return true;
}

absl::StatusOr<int64_t> KeyValueStore::Count(uint64_t generation) const {
  absl::MutexLock lock(&mutex_);
  RETURN_IF_ERROR(CheckGeneration(generation));
  return static_cast<int64_t>(entries_.size());
}

absl::Status KeyValueStore::CheckGeneration(uint64_t generation) const {
  if (open_ && generation == generation_) return absl::OkStatus();
  if (generation > generation_) {
    return absl::UnavailableError(absl::StrCat("generation ", generation, " is not known here, the newest is ",
                                               generation_, ": the rendezvous was started again and learns"));
  }
  if (generation == generation_)
    return absl::AbortedError(absl::StrCat("generation ", generation, " is over: ", why_ended_));
  return absl::AbortedError(absl::StrCat("generation ", generation, " is not the current one, that is ", generation_));
}

absl::Status KeyValueStore::CheckSizes(absl::string_view key, absl::string_view value) const {
  if (key.size() > limits_.max_key_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("key of ", key.size(), " bytes, at most ", limits_.max_key_bytes, " are allowed"));
  }
  if (value.size() <= limits_.max_value_bytes) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("value of ", value.size(), " bytes for key \"", absl::CHexEscape(key),
                                                 "\", at most ", limits_.max_value_bytes, " are allowed"));
}

absl::Status KeyValueStore::CheckRoom(size_t num_keys, size_t num_bytes) const {
  if (entries_.size() + num_keys <= limits_.max_keys && total_bytes_ + num_bytes <= limits_.max_total_bytes)
    return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("key-value store: full (", entries_.size(), " keys, ", total_bytes_, " bytes)"));
}

void KeyValueStore::Store(const std::string& key, std::string value, Calls& calls) {
  const auto [it, is_new] = entries_.try_emplace(key);
  total_bytes_ += (is_new ? key.size() : 0) + value.size() - it->second.size();
  it->second = std::move(value);
  if (is_new) Wake(key, calls);
}

void KeyValueStore::Run(Calls& calls) {
  for (auto& [done, answer] : calls) done(std::move(answer));
}

}  // namespace composer
