// SPDX-License-Identifier: Apache-2.0
#include "data/cache/whole_object.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "storage/checksum.h"

namespace composer {
namespace {

constexpr int64_t kRequestBytes = int64_t{8} << 20;

}  // namespace

absl::StatusOr<std::string> ReadObjectRange(ObjectStore& store, const std::string& key, int64_t offset, int64_t size) {
  std::string bytes(static_cast<size_t>(size), '\0');
  for (int64_t at = 0; at < size; at += kRequestBytes) {
    const auto length = static_cast<size_t>(std::min(kRequestBytes, size - at));
    RETURN_IF_ERROR(store.Read(key, offset + at, absl::MakeSpan(bytes).subspan(static_cast<size_t>(at), length)));
  }
  return bytes;
}

CachedItem WholeObject(std::shared_ptr<ObjectStore> store, const std::string& key, int64_t bytes,
                       std::function<absl::Status(absl::string_view content)> check) {
  CachedItem item;
  item.place = store->Location(key);
  const std::string identity = absl::StrCat(item.place, "\n", bytes);
  const std::string first = ChecksumText(Xxh3(identity));
  item.name = absl::StrCat(first, ChecksumText(Xxh3(absl::StrCat(first, identity))));
  item.bytes = bytes;
  item.check = std::move(check);
  item.fetch = [store = std::move(store), key, bytes] { return ReadObjectRange(*store, key, 0, bytes); };
  return item;
}

CachedItem EndOfObject(std::shared_ptr<ObjectStore> store, const std::string& key, int64_t bytes, int64_t last_bytes,
                       std::function<absl::Status(absl::string_view content)> check) {
  CachedItem item = WholeObject(store, key, bytes, std::move(check));
  absl::StrAppend(&item.name, "-", last_bytes);
  item.bytes = last_bytes;
  item.fetch = [store = std::move(store), key, bytes, last_bytes] {
    return ReadObjectRange(*store, key, bytes - last_bytes, last_bytes);
  };
  return item;
}

}  // namespace composer
