// Objects of a store as files of a cache.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "data/cache/shard_cache.h"
#include "storage/object_store.h"

namespace composer {

// Reads `size` bytes of an object from `offset` on, in requests of 8 MiB.
absl::StatusOr<std::string> ReadObjectRange(ObjectStore& store, const std::string& key, int64_t offset, int64_t size);

// Returns what keeps an object of `bytes` bytes in a cache. Its name there depends on location and size.
CachedItem WholeObject(std::shared_ptr<ObjectStore> store, const std::string& key, int64_t bytes,
                       std::function<absl::Status(absl::string_view content)> check);

// Returns what keeps the last bytes of such an object.
CachedItem EndOfObject(std::shared_ptr<ObjectStore> store, const std::string& key, int64_t bytes, int64_t last_bytes,
                       std::function<absl::Status(absl::string_view content)> check);

}  // namespace composer
