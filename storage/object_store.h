// The seam to where bytes are kept: a folder (local_store.h), memory (memory_store.h), S3, GCS or OCI (s3_store.h).
//
// An object is a key and its bytes, written whole: a reader sees all of it or nothing. There is no rename and no
// append, since object storage has none. A key is `a/b/c`: one or more parts of [A-Za-z0-9._-] joined by '/', none
// starting with '.', 1024 bytes at most. What an interrupted Put left behind may show up in List, under names that no
// Put accepts; IsLeftover recognises them.
//
// Thread-safe; stores that several processes share may also be used from any of them.
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

// An object's bytes as consecutive pieces; the caller keeps ownership of the memory.
using Pieces = absl::Span<const absl::string_view>;
std::string JoinPieces(Pieces pieces);

class ObjectStore {
 public:
  virtual ~ObjectStore() = default;

  // Durable when it returns OK. Replaces an older object of that key atomically. After an error the key has its old
  // content or, if only making it durable failed, the new one.
  virtual absl::Status Put(const std::string& key, Pieces pieces) = 0;
  // Like Put, but kAlreadyExists, and no change, when the key has an object: of many writers exactly one wins.
  virtual absl::Status PutIfAbsent(const std::string& key, Pieces pieces) = 0;

  virtual absl::StatusOr<int64_t> Size(const std::string& key) = 0;
  // Fills `into` with the bytes from `offset` on; kOutOfRange when the object has fewer.
  virtual absl::Status Read(const std::string& key, int64_t offset, absl::Span<char> into) = 0;

  // Returns all keys below the folder (`a` lists `a/b` and `a/b/c`, not `ab`), sorted; "" lists everything. A missing
  // folder counts as empty.
  virtual absl::StatusOr<std::vector<std::string>> List(const std::string& folder) = 0;

  // Durable when it returns; OK when the object does not exist. Accepts what List returns, leftovers included.
  virtual absl::Status Delete(const std::string& key) = 0;
  // Deletes everything below the folder, leftovers included. Not atomic: a crash may leave any part of it.
  virtual absl::Status DeleteTree(const std::string& folder) = 0;

  // Makes calls that wait for a server, and all later ones, return kCancelled soon: for an owner that must exit. Does
  // nothing in stores that never wait for a server.
  virtual void GiveUp() {}

  // Returns the key's location for messages: a path or a URL.
  virtual std::string Location(const std::string& key) const = 0;
};

// Opens the store of a place that a user names: a path is a LocalStore, a URL what open_store.h makes of it. If empty,
// only paths are known (OpenPlace).
using StoreOpener = std::function<absl::StatusOr<std::shared_ptr<ObjectStore>>(const std::string& place)>;
// Returns open(place), or the LocalStore of a path when `open` is empty.
absl::StatusOr<std::shared_ptr<ObjectStore>> OpenPlace(const StoreOpener& open, const std::string& place);
// Returns whether the place is in object storage: it has a scheme other than file.
bool IsRemotePlace(absl::string_view place);

// Returns the whole object. kResourceExhausted when it is larger than max_bytes.
absl::StatusOr<std::string> GetObject(ObjectStore& store, const std::string& key, int64_t max_bytes);

// kInvalidArgument when `key` is not a key as above.
absl::Status CheckKey(absl::string_view key);
// Returns whether a listed key is what an interrupted Put left behind: its last part starts with kLeftoverPrefix, or is
// "." (an empty folder).
bool IsLeftover(absl::string_view listed_key);
inline constexpr absl::string_view kLeftoverPrefix = ".put-";

}  // namespace composer
