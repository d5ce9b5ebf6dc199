// Gets that wait for their keys; the methods that change keys are in key_value.cc.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "rendezvous/store/key_value.h"

namespace composer {

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

// Searches on from the last missing key: over a waiter's life that is a single pass, as long as nothing is deleted.
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

}  // namespace composer
