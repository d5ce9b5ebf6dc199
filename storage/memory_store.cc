// SPDX-License-Identifier: Apache-2.0
#include "storage/memory_store.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace composer {

absl::Status MemoryStore::Put(const std::string& key, Pieces pieces) {
  RETURN_IF_ERROR(CheckKey(key));
  std::string bytes = JoinPieces(pieces);
  absl::MutexLock lock(&mutex_);
  objects_[key] = std::move(bytes);
  return absl::OkStatus();
}

absl::Status MemoryStore::PutIfAbsent(const std::string& key, Pieces pieces) {
  RETURN_IF_ERROR(CheckKey(key));
  std::string bytes = JoinPieces(pieces);
  absl::MutexLock lock(&mutex_);
  if (objects_.try_emplace(key, std::move(bytes)).second) return absl::OkStatus();
  return absl::AlreadyExistsError(absl::StrCat("cannot create ", Location(key), ": it exists"));
}

absl::StatusOr<int64_t> MemoryStore::Size(const std::string& key) {
  RETURN_IF_ERROR(CheckKey(key));
  absl::MutexLock lock(&mutex_);
  const auto found = objects_.find(key);
  if (found == objects_.end()) return absl::NotFoundError(absl::StrCat("there is no ", Location(key)));
  return static_cast<int64_t>(found->second.size());
}

absl::Status MemoryStore::Read(const std::string& key, int64_t offset, absl::Span<char> into) {
  RETURN_IF_ERROR(CheckKey(key));
  absl::MutexLock lock(&mutex_);
  const auto found = objects_.find(key);
  if (found == objects_.end()) return absl::NotFoundError(absl::StrCat("there is no ", Location(key)));
  const std::string& bytes = found->second;
  const size_t begin = std::min(bytes.size(), static_cast<size_t>(offset));
  if (bytes.size() - begin < into.size()) {
    return absl::OutOfRangeError(absl::StrCat(Location(key), " ends at ", bytes.size(), " bytes"));
  }
  std::copy_n(bytes.data() + begin, into.size(), into.data());
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> MemoryStore::List(const std::string& folder) {
  if (!folder.empty()) RETURN_IF_ERROR(CheckKey(folder));
  const std::string prefix = folder.empty() ? "" : folder + "/";
  std::vector<std::string> keys;
  absl::MutexLock lock(&mutex_);
  for (auto it = objects_.lower_bound(prefix); it != objects_.end() && absl::StartsWith(it->first, prefix); ++it) {
    keys.push_back(it->first);
  }
  return keys;
}

absl::Status MemoryStore::Delete(const std::string& key) {
  RETURN_IF_ERROR(CheckKey(key));
  absl::MutexLock lock(&mutex_);
  objects_.erase(key);
  return absl::OkStatus();
}

absl::Status MemoryStore::DeleteTree(const std::string& folder) {
  RETURN_IF_ERROR(CheckKey(folder));
  const std::string prefix = folder + "/";
  absl::MutexLock lock(&mutex_);
  auto it = objects_.lower_bound(prefix);
  while (it != objects_.end() && absl::StartsWith(it->first, prefix)) it = objects_.erase(it);
  return absl::OkStatus();
}

}  // namespace composer
