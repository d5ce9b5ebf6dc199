// The seam to where bytes are kept: a folder (local_store.h), memory (memory_store.h), S3, GCS or OCI (s3_store.h).
//
// An object is a key and its bytes, written whole: a reader sees all of it or nothing. There is no rename and no
// append, since object storage has none. A key is `a/b/c`: one or more parts of [A-Za-z0-9._-] joined by '/', none
// starting with '.', 1024 bytes at most. What a Put that was cut off left behind may show up in List, under names that
// no Put takes; IsLeftover tells.
//
// Threads: every method may be called from any thread and, for stores that several processes share, from any process.
// Errors: kNotFound (no such key), kAlreadyExists, kInvalidArgument (not a key), kOutOfRange (object ends too early),
// kResourceExhausted (no room), kPermissionDenied, kUnavailable, kInternal. Messages name the location and the cause.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace composer {

// An object's bytes as the pieces that make it up, in order; the memory stays the caller's.
using Pieces = absl::Span<const absl::string_view>;
std::string JoinPieces(Pieces pieces);

class ObjectStore {
 public:
  virtual ~ObjectStore() = default;

  // Durable when it returns OK. Replaces an older object of that key at one instant. After an error the key has
  // its old content, or, when only making it durable failed, the new one.
  virtual absl::Status Put(const std::string& key, Pieces pieces) = 0;
  // The same, but kAlreadyExists, and no change, when the key has an object: of many writers exactly one wins.
  virtual absl::Status PutIfAbsent(const std::string& key, Pieces pieces) = 0;

  virtual absl::StatusOr<int64_t> Size(const std::string& key) = 0;
  // Fills `into` with the bytes from `offset` on; kOutOfRange when the object has fewer.
  virtual absl::Status Read(const std::string& key, int64_t offset, absl::Span<char> into) = 0;

  // All keys below the folder (`a` lists `a/b` and `a/b/c`, not `ab`), sorted; "" lists everything. A folder not there
  // is empty.
  virtual absl::StatusOr<std::vector<std::string>> List(const std::string& folder) = 0;

  // Durable when it returns; OK when there is none. Takes what List returns, remains included.
  virtual absl::Status Delete(const std::string& key) = 0;
  // Everything below the folder, remains included. Not atomic: a crash may leave any part of it.
  virtual absl::Status DeleteTree(const std::string& folder) = 0;

  // Calls that wait for a server return kCancelled soon, and so do all later ones: for an owner that must leave. Stores
  // that never wait for one do nothing.
  virtual void GiveUp() {}

  // Where the key is, for people: a path or a URL.
  virtual std::string Location(const std::string& key) const = 0;
};

// How a place that a user names becomes a store: a path is a LocalStore, a URL what open_store.h makes of it. Empty: only
// paths are known (OpenPlace).
using StoreOpener = std::function<absl::StatusOr<std::shared_ptr<ObjectStore>>(const std::string& place)>;
// open(place), or the LocalStore of a path when `open` is empty.
absl::StatusOr<std::shared_ptr<ObjectStore>> OpenPlace(const StoreOpener& open, const std::string& place);
// Whether the place is in object storage: it has a scheme other than file.
bool IsRemotePlace(absl::string_view place);

// The whole object. kResourceExhausted when it is larger than max_bytes.
absl::StatusOr<std::string> GetObject(ObjectStore& store, const std::string& key, int64_t max_bytes);

// kInvalidArgument when `key` is not a key as above.
absl::Status CheckKey(absl::string_view key);
// Whether a listed key is what a cut-off Put left behind: its last part starts with kLeftoverPrefix, or is "." (an empty
// folder).
bool IsLeftover(absl::string_view listed_key);
inline constexpr absl::string_view kLeftoverPrefix = ".put-";

}  // namespace composer
