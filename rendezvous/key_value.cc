// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/key_value.h"

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

uint64_t KeyValueStore::NextRevision(uint64_t* revision) {
  ++revision_;
  if (revision != nullptr) *revision = revision_;
  return revision_;
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
  filed_.clear();
  total_bytes_ = 0;
  for (auto& [id, waiter] : waiters_) calls.emplace_back(std::move(waiter.done), CheckGeneration(generation_));
  waiters_.clear();
}

absl::Status KeyValueStore::Set(uint64_t generation, std::vector<std::pair<std::string, std::string>> entries,
                                uint64_t* revision) {
  for (const auto& [key, value] : entries) RETURN_IF_ERROR(CheckSizes(key, value));
  Calls calls;
  {
    absl::MutexLock lock(&mutex_);
    RETURN_IF_ERROR(CheckGeneration(generation));
    size_t num_bytes = 0;
    for (const auto& [key, value] : entries) num_bytes += key.size() + value.size();
    RETURN_IF_ERROR(CheckRoom(entries.size(), num_bytes));
    NextRevision(revision);
    for (auto& [key, value] : entries) Store(key, std::move(value), calls);
  }
  Run(calls);
  return absl::OkStatus();
}

KeyValueStore::WaiterId KeyValueStore::Get(uint64_t generation, std::vector<std::string> keys, bool with_values,
                                           Callback done) {
  absl::StatusOr<Values> answer = Values();
  {
    absl::MutexLock lock(&mutex_);
    Waiter waiter{std::move(keys), 0, with_values, std::move(done)};
    absl::Status status = CheckGeneration(generation);
    for (const std::string& key : waiter.keys) status.Update(CheckSizes(key, ""));
    if (status.ok() && FindMissing(waiter)) {
      if (waiters_.size() < limits_.max_waiters) {
        const WaiterId id = ++last_waiter_;
        filed_[waiter.keys[waiter.missing]].push_back(id);
        waiters_.emplace(id, std::move(waiter));
        return id;
      }
      status = absl::ResourceExhaustedError(
          absl::StrCat("key-value store: ", waiters_.size(), " calls are waiting already"));
    }
    answer = status.ok() ? Collect(waiter) : absl::StatusOr<Values>(status);
    done = std::move(waiter.done);
  }
  done(std::move(answer));
  return 0;
}

void KeyValueStore::Cancel(WaiterId id, const absl::Status& why) {
  Callback done;
  absl::Status answer;
  {
    absl::MutexLock lock(&mutex_);
    const auto it = waiters_.find(id);
    if (it == waiters_.end()) return;
    const std::string& key = it->second.keys[it->second.missing];
    answer =
        absl::Status(why.code(), absl::StrCat(why.message(), ", key \"", absl::CHexEscape(key), "\" is not there"));
    const auto filed = filed_.find(key);
    if (filed != filed_.end()) {
      std::vector<WaiterId>& ids = filed->second;
      ids.erase(std::remove(ids.begin(), ids.end(), id), ids.end());
      if (ids.empty()) filed_.erase(filed);
    }
    done = std::move(it->second.done);
    waiters_.erase(it);
  }
  done(answer);
}

absl::StatusOr<int64_t> KeyValueStore::Add(uint64_t generation, const std::string& key, int64_t amount,
                                           uint64_t* revision) {
  RETURN_IF_ERROR(CheckSizes(key, ""));
  Calls calls;
  int64_t sum = 0;
  {
    absl::MutexLock lock(&mutex_);
    RETURN_IF_ERROR(CheckGeneration(generation));
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
    NextRevision(revision);
    Store(key, std::move(text), calls);
  }
  Run(calls);
  return sum;
}

absl::StatusOr<std::string> KeyValueStore::CompareSet(uint64_t generation, const std::string& key,
                                                      const std::string& expected, std::string desired,
                                                      uint64_t* revision) {
  RETURN_IF_ERROR(CheckSizes(key, desired));
  if (revision != nullptr) *revision = 0;
  Calls calls;
  {
    absl::MutexLock lock(&mutex_);
    RETURN_IF_ERROR(CheckGeneration(generation));
    const auto it = entries_.find(key);
    if (it == entries_.end() && !expected.empty()) return expected;
    if (it != entries_.end() && it->second != expected) return it->second;
    RETURN_IF_ERROR(CheckRoom(1, key.size() + desired.size()));
    NextRevision(revision);
    Store(key, desired, calls);
  }
  Run(calls);
  return desired;
}

absl::StatusOr<bool> KeyValueStore::Check(uint64_t generation, const std::vector<std::string>& keys) const {
  absl::MutexLock lock(&mutex_);
  RETURN_IF_ERROR(CheckGeneration(generation));
  return std::all_of(keys.begin(), keys.end(), [&](const std::string& key) {
    mutex_.AssertReaderHeld();
    return entries_.count(key) > 0;
  });
}

absl::StatusOr<bool> KeyValueStore::Delete(uint64_t generation, const std::string& key, uint64_t* revision) {
  if (revision != nullptr) *revision = 0;
  absl::MutexLock lock(&mutex_);
  RETURN_IF_ERROR(CheckGeneration(generation));
  const auto it = entries_.find(key);
  if (it == entries_.end()) return false;
  total_bytes_ -= it->first.size() + it->second.size();
  entries_.erase(it);
  NextRevision(revision);
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

void KeyValueStore::Wake(const std::string& key, Calls& calls) {
  const auto filed = filed_.find(key);
  if (filed == filed_.end()) return;
  const std::vector<WaiterId> ids = std::move(filed->second);
  filed_.erase(filed);
  for (const WaiterId id : ids) {
    const auto it = waiters_.find(id);
    Waiter& waiter = it->second;
    if (FindMissing(waiter)) {
      filed_[waiter.keys[waiter.missing]].push_back(id);
      continue;
    }
    calls.emplace_back(std::move(waiter.done), Collect(waiter));
    waiters_.erase(it);
  }
}

// Goes round from the last missing key: over a waiter's life that is one pass, as long as nothing is deleted.
bool KeyValueStore::FindMissing(Waiter& waiter) const {
  for (size_t i = 0; i < waiter.keys.size(); ++i) {
    const size_t at = (waiter.missing + i) % waiter.keys.size();
    if (entries_.count(waiter.keys[at]) > 0) continue;
    waiter.missing = at;
    return true;
  }
  return false;
}

absl::StatusOr<KeyValueStore::Values> KeyValueStore::Collect(const Waiter& waiter) const {
  Values values;
  if (!waiter.with_values) return values;
  size_t num_bytes = 0;
  for (const std::string& key : waiter.keys) num_bytes += entries_.at(key).size();
  if (num_bytes > limits_.max_answer_bytes) {
    return absl::ResourceExhaustedError(absl::StrCat("get: ", num_bytes, " bytes in one answer, at most ",
                                                     limits_.max_answer_bytes, " are allowed: ask for fewer keys"));
  }
  values.reserve(waiter.keys.size());
  for (const std::string& key : waiter.keys) values.push_back(entries_.at(key));
  return values;
}

void KeyValueStore::Run(Calls& calls) {
  for (auto& [done, answer] : calls) done(std::move(answer));
}

}  // namespace composer
