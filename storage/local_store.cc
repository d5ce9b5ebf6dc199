// SPDX-License-Identifier: Apache-2.0
#include "storage/local_store.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/status_macros.h"
#include "storage/leftovers.h"

namespace composer {
namespace {

std::string WithoutTrailingSlash(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

}  // namespace

LocalStore::LocalStore(std::string root, FileSystem& files)
    : root_(WithoutTrailingSlash(AbsolutePath(root))), files_(files) {}

std::string LocalStore::Location(const std::string& key) const { return JoinPath(root_, key); }

absl::Status LocalStore::Put(const std::string& key, Pieces pieces) { return Write(key, pieces, IfPresent::kReplace); }

absl::Status LocalStore::PutIfAbsent(const std::string& key, Pieces pieces) {
  return Write(key, pieces, IfPresent::kFail);
}

absl::Status LocalStore::Write(const std::string& key, Pieces pieces, IfPresent if_present) {
  RETURN_IF_ERROR(CheckKey(key));
  const std::string path = Location(key);
  const std::string folder = DirName(path);
  RETURN_IF_ERROR(MakeFolders(folder));
  const std::string temporary = TemporaryName(path);
  absl::Status status = files_.WriteNewFile(temporary, pieces);
  if (status.ok()) {
    status = if_present == IfPresent::kReplace ? files_.Rename(temporary, path) : files_.Link(temporary, path);
  }
  // After a rename there is nothing to remove; otherwise the temporary name is removed, and a failure to do so is
  // harmless.
  if (!status.ok() || if_present == IfPresent::kFail) files_.Remove(temporary).IgnoreError();
  RETURN_IF_ERROR(status);
  return SyncFolders(folder);
}

absl::Status LocalStore::MakeFolders(const std::string& folder) {
  const absl::Status made = files_.MakeFolder(folder);
  if (made.code() != absl::StatusCode::kNotFound) return made;
  const std::string parent = DirName(folder);
  if (parent == folder || parent.empty()) return made;
  RETURN_IF_ERROR(MakeFolders(parent));
  RETURN_IF_ERROR(files_.SyncFolder(DirName(parent)));  // the parent is new, and may lie above what SyncFolders covers
  return files_.MakeFolder(folder);
}

absl::Status LocalStore::SyncFolders(const std::string& folder) {
  for (std::string path = folder; path.size() >= root_.size(); path = DirName(path)) {
    RETURN_IF_ERROR(files_.SyncFolder(path));
    if (path == "/") break;
  }
  // Syncs the root's own name. We may lack permission to open its parent where someone else made the root for us.
  const absl::Status parent = files_.SyncFolder(DirName(root_));
  return parent.code() == absl::StatusCode::kPermissionDenied ? absl::OkStatus() : parent;
}

absl::StatusOr<int64_t> LocalStore::Size(const std::string& key) {
  RETURN_IF_ERROR(CheckKey(key));
  return files_.Size(Location(key));
}

absl::Status LocalStore::Read(const std::string& key, int64_t offset, absl::Span<char> into) {
  RETURN_IF_ERROR(CheckKey(key));
  return files_.Read(Location(key), offset, into);
}

absl::StatusOr<std::vector<std::string>> LocalStore::List(const std::string& folder) {
  if (!folder.empty()) RETURN_IF_ERROR(CheckKey(folder));
  std::vector<std::string> keys;
  const absl::Status status = ListInto(folder, &keys);
  if (status.code() == absl::StatusCode::kNotFound) return std::vector<std::string>{};
  RETURN_IF_ERROR(status);
  std::sort(keys.begin(), keys.end());
  return keys;
}

absl::Status LocalStore::ListInto(const std::string& folder, std::vector<std::string>* keys) {
  ASSIGN_OR_RETURN(const auto entries, files_.List(Location(folder)));
  if (entries.empty() && !folder.empty()) keys->push_back(absl::StrCat(folder, "/."));
  for (const FileSystem::Entry& entry : entries) {
    const std::string key = JoinPath(folder, entry.name);
    if (!CheckListedKey(key).ok()) continue;  // not ours
    if (!entry.is_folder) {
      keys->push_back(key);
    } else if (const absl::Status status = ListInto(key, keys); status.code() != absl::StatusCode::kNotFound) {
      RETURN_IF_ERROR(status);  // a folder removed meanwhile is not an error
    }
  }
  return absl::OkStatus();
}

absl::Status LocalStore::Delete(const std::string& key) {
  RETURN_IF_ERROR(CheckListedKey(key));
  const std::string path =
      WithoutTrailingSlash(Location(absl::EndsWith(key, "/.") ? key.substr(0, key.size() - 2) : key));
  RETURN_IF_ERROR(files_.Remove(path));
  const absl::Status synced = files_.SyncFolder(DirName(path));
  return synced.code() == absl::StatusCode::kNotFound ? absl::OkStatus() : synced;
}

absl::Status LocalStore::DeleteTree(const std::string& folder) {
  RETURN_IF_ERROR(CheckKey(folder));
  const absl::Status removed = RemoveAll(Location(folder));
  if (removed.code() == absl::StatusCode::kNotFound) return absl::OkStatus();
  RETURN_IF_ERROR(removed);
  return files_.SyncFolder(DirName(Location(folder)));
}

absl::Status LocalStore::RemoveAll(const std::string& folder) {
  ASSIGN_OR_RETURN(const auto entries, files_.List(folder));
  for (const FileSystem::Entry& entry : entries) {
    const std::string path = JoinPath(folder, entry.name);
    RETURN_IF_ERROR(entry.is_folder ? RemoveAll(path) : files_.Remove(path));
  }
  return files_.Remove(folder);
}

}  // namespace composer
