// This node's objects: files below a folder that lies in memory (tmpfs). The node's workers use it as a LocalStore; the
// launcher moves whole objects in and out of it for other nodes, one chunk at a time, so that its own memory does not
// grow. Thread-safe.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "storage/local_store.h"

namespace composer {

class MemoryFolder {
 public:
  static constexpr int64_t kChunkBytes = 1 << 20;

  // `root` is absolute; the first object creates it.
  explicit MemoryFolder(std::string root) : store_(std::move(root)) {}

  // An incoming object. It becomes visible under its key when Commit returns OK; if destroyed earlier, it leaves
  // nothing.
  class Incoming {
   public:
    Incoming() = default;
    Incoming(Incoming&& other) noexcept { *this = std::move(other); }
    Incoming& operator=(Incoming&& other) noexcept;
    ~Incoming();
    // Returns kResourceExhausted when the memory is full.
    absl::Status Append(absl::string_view data);
    absl::Status Commit();

   private:
    friend class MemoryFolder;
    int fd_ = -1;
    std::string path_, target_;
  };
  // Returns kInvalidArgument if `key` is not a key.
  absl::StatusOr<Incoming> Receive(const std::string& key);

  // Calls `take` with the object's bytes in order, at most kChunkBytes at once, until it returns false. Returns
  // kNotFound if there is no such object.
  absl::Status Send(const std::string& key, absl::FunctionRef<bool(absl::string_view)> take) const;

  // Returns what is below a folder, with sizes, without the remains of interrupted writes.
  absl::StatusOr<std::vector<std::pair<std::string, int64_t>>> List(const std::string& folder);
  // Removes an object, or everything below a folder.
  absl::Status Remove(const std::string& key);

 private:
  LocalStore store_;
};

}  // namespace composer
