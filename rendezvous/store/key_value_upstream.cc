// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/store/key_value_upstream.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace composer {

void KeyValueUpstream::SetChannel(const std::shared_ptr<grpc::Channel>& channel) {
  std::shared_ptr<proto::KeyValue::Stub> stub = proto::KeyValue::NewStub(channel);
  absl::MutexLock lock(&mutex_);
  stub_ = std::move(stub);
}

std::shared_ptr<proto::KeyValue::Stub> KeyValueUpstream::stub() const {
  absl::MutexLock lock(&mutex_);
  return stub_;
}

void KeyValueUpstream::Enter(uint64_t generation) {
  if (generation <= generation_) return;
  if (cache_ != nullptr) cache_->Close(absl::StrCat("generation ", generation, " has begun"));
  generation_ = generation;
  memories_.clear();
  deleted_.clear();
  kept_bytes_ = 0;
  check_above_ = kMinCheckedBytes;
  checking_ = false;
  claimed_.clear();
  cache_ = nullptr;
}

proto::ChangeId KeyValueUpstream::NumberChange() {
  absl::MutexLock lock(&mutex_);
  proto::ChangeId id;
  id.set_sender(sender_);
  id.set_number(++last_change_);
  open_changes_.insert(last_change_);
  id.set_settled(*open_changes_.begin() - 1);
  return id;
}

void KeyValueUpstream::SettleChange(uint64_t number) {
  absl::MutexLock lock(&mutex_);
  open_changes_.erase(number);
}

void KeyValueUpstream::Remember(uint64_t generation, proto::KeyMemory change) {
  if (change.revision() == 0) return;  // nothing changed
  absl::MutexLock lock(&mutex_);
  Enter(generation);
  if (generation != generation_) return;
  proto::KeyMemory& known = memories_[change.key()];
  if (known.revision() > change.revision()) return;  // answers may overtake each other
  if (change.deleted()) deleted_.push_back(change.key());
  if (known.revision() > 0) kept_bytes_ -= BytesOf(known);
  known = std::move(change);
  kept_bytes_ += BytesOf(known);
  while (deleted_.size() > kMaxDeleted) {
    const auto oldest = memories_.find(deleted_.front());
    if (oldest != memories_.end() && oldest->second.deleted()) memories_.erase(oldest);
    deleted_.pop_front();
  }
}

std::vector<proto::KeyMemory> KeyValueUpstream::Memories(uint64_t generation) const {
  std::vector<proto::KeyMemory> memories;
  absl::MutexLock lock(&mutex_);
  if (generation != generation_) return memories;
  memories.reserve(memories_.size());
  for (const auto& [key, memory] : memories_) memories.push_back(memory);
  return memories;
}

size_t KeyValueUpstream::BytesOf(const proto::KeyMemory& memory) {
  return memory.deleted() ? 0 : kBytesOfAMemory + memory.key().size() + memory.value().size();
}

std::vector<std::string> KeyValueUpstream::TakeKeysToCheck(uint64_t generation) {
  std::vector<std::string> keys;
  absl::MutexLock lock(&mutex_);
  if (generation != generation_ || checking_ || kept_bytes_ <= check_above_) return keys;
  checking_ = true;
  for (const auto& [key, memory] : memories_) {
    if (!memory.deleted()) keys.push_back(key);
  }
  return keys;
}

void KeyValueUpstream::Forget(uint64_t generation, const std::vector<std::string>& absent, uint64_t revision) {
  absl::MutexLock lock(&mutex_);
  if (generation != generation_) return;
  for (const std::string& key : absent) {
    const auto memory = memories_.find(key);
    if (memory == memories_.end() || memory->second.deleted() || memory->second.revision() > revision) continue;
    kept_bytes_ -= BytesOf(memory->second);
    memories_.erase(memory);
  }
  checking_ = false;
  check_above_ = std::max(kMinCheckedBytes, 2 * kept_bytes_);
}

std::shared_ptr<KeyValueStore> KeyValueUpstream::Cache(uint64_t generation) {
  absl::MutexLock lock(&mutex_);
  Enter(generation);
  if (generation != generation_) return nullptr;
  if (cache_ == nullptr) {
    cache_ = std::make_shared<KeyValueStore>();
    cache_->Begin(generation);
  }
  return cache_;
}

bool KeyValueUpstream::ClaimRead(uint64_t generation, const std::string& key) {
  absl::MutexLock lock(&mutex_);
  return generation == generation_ && claimed_.insert(key).second;
}

void KeyValueUpstream::ReleaseRead(uint64_t generation, const std::string& key) {
  absl::MutexLock lock(&mutex_);
  if (generation == generation_) claimed_.erase(key);
}

}  // namespace composer
