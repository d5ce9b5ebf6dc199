// Objects as files below one folder, which is created by the first Put. Several processes may share it (also over NFS).
//
// Put writes `.put-<random>-<name>` beside the target, syncs it, renames it (PutIfAbsent: claims a name that is free,
// TakeFreeName in file_system.h, so that one of many writers wins), and then syncs every folder from the file's up to
// the root's parent: another process may have created them and not synced them yet.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "storage/file_system.h"
#include "storage/object_store.h"

namespace composer {

class LocalStore final : public ObjectStore {
 public:
  // `files` must outlive the store.
  explicit LocalStore(std::string root, FileSystem& files = RealFileSystem());

  absl::Status Put(const std::string& key, Pieces pieces) override;
  absl::Status PutIfAbsent(const std::string& key, Pieces pieces) override;
  absl::StatusOr<int64_t> Size(const std::string& key) override;
  absl::Status Read(const std::string& key, int64_t offset, absl::Span<char> into) override;
  absl::StatusOr<std::vector<std::string>> List(const std::string& folder) override;
  absl::Status Delete(const std::string& key) override;
  absl::Status DeleteTree(const std::string& folder) override;
  std::string Location(const std::string& key) const override;

  const std::string& root() const { return root_; }

 private:
  enum class IfPresent { kReplace, kFail };
  absl::Status Write(const std::string& key, Pieces pieces, IfPresent if_present);
  absl::Status MakeFolders(const std::string& folder);
  absl::Status SyncFolders(const std::string& folder);
  absl::Status ListInto(const std::string& folder, std::vector<std::string>* keys);
  absl::Status RemoveAll(const std::string& folder);

  const std::string root_;  // absolute, without a trailing '/'
  FileSystem& files_;
};

}  // namespace composer
