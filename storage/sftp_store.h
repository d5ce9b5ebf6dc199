// Objects in a folder of an SFTP server. An object is written beside its place under another name, synced, and renamed
// (Put) or linked (PutIfAbsent) there; the server needs OpenSSH's extensions for these.
//
// One connection, one request of the store at a time; a lost connection is made anew at the next one, and a request
// that it interrupted is sent again, except PutIfAbsent when it may have been carried out.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "base/env.h"
#include "base/retry.h"
#include "net/sftp_link.h"
#include "storage/object_store.h"

namespace composer {

class SftpStore final : public ObjectStore {
 public:
  struct Options {
    std::vector<std::string> command;  // speaks SFTP on its standard streams
    Environment environment;           // of the command
    std::string folder;                // on the server: "/runs/mine"; "runs" is below the user's home
    std::string url;                   // "sftp://host/runs/mine", for messages
    RetryPolicy retry = {.max_tries = 3};
    absl::Duration patience = absl::Minutes(1);  // for an answer
  };
  explicit SftpStore(Options options) : options_(std::move(options)) {}

  absl::Status Put(const std::string& key, Pieces pieces) override;
  absl::Status PutIfAbsent(const std::string& key, Pieces pieces) override;
  absl::StatusOr<int64_t> Size(const std::string& key) override;
  absl::Status Read(const std::string& key, int64_t offset, absl::Span<char> into) override;
  absl::StatusOr<std::vector<std::string>> List(const std::string& folder) override;
  absl::Status Delete(const std::string& key) override;
  absl::Status DeleteTree(const std::string& folder) override;
  void GiveUp() override;
  std::string Location(const std::string& key) const override;

 private:
  using Work = std::function<absl::Status(SftpLink&)>;
  // Does the work, again after a lost connection unless `once` says so; errors name the location of `key`.
  absl::Status With(const std::string& key, const Work& work, const bool* once = nullptr);
  absl::StatusOr<std::shared_ptr<SftpLink>> Connected();
  std::string PathOf(absl::string_view key) const;
  absl::Status MakeFolders(SftpLink& link, const std::string& key);
  absl::StatusOr<std::string> WriteTemporary(SftpLink& link, const std::string& key, Pieces pieces);
  // Calls visit(key, is_folder) for what is below a folder, folders after what is in them.
  absl::Status Walk(SftpLink& link, const std::string& folder,
                    const std::function<absl::Status(const std::string&, bool)>& visit);

  const Options options_;
  absl::Mutex turn_;            // held during a request
  std::set<std::string> made_;  // folders that are there; read and changed by who has the turn
  absl::Mutex mutex_;
  std::shared_ptr<SftpLink> link_ ABSL_GUARDED_BY(mutex_);
  bool given_up_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace composer
