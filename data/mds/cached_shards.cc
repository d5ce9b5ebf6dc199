// SPDX-License-Identifier: Apache-2.0
#include "data/mds/cached_shards.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/status_macros.h"
#include "storage/checksum.h"

namespace composer {
namespace {

constexpr int64_t kPiece = int64_t{8} << 20;  // of a request

std::string KeyOf(const std::string& folder, const std::string& name) {
  return folder.empty() ? name : absl::StrCat(folder, "/", name);
}

// The hash to check of this file: the wanted one, or the fastest, or none.
std::string HashFor(const ShardFile& file, const std::string& wanted) {
  if (!wanted.empty() || file.hashes.empty()) return wanted;
  const auto fast = std::find_if(file.hashes.begin(), file.hashes.end(),
                                 [](const auto& hash) { return absl::StartsWith(hash.first, "xxh"); });
  return fast == file.hashes.end() ? file.hashes[0].first : fast->first;
}

absl::StatusOr<std::string> ReadWhole(ObjectStore& store, const std::string& key, int64_t size) {
  ASSIGN_OR_RETURN(const int64_t found, store.Size(key));
  if (found != size)
    return absl::DataLossError(absl::StrCat(store.Location(key), " has ", found, " bytes, and the index says ", size));
  std::string bytes(static_cast<size_t>(size), '\0');
  for (int64_t at = 0; at < size; at += kPiece) {
    const auto piece =
        absl::MakeSpan(bytes).subspan(static_cast<size_t>(at), static_cast<size_t>(std::min(kPiece, size - at)));
    RETURN_IF_ERROR(store.Read(key, at, piece));
  }
  return bytes;
}

// Unique for the content: another data set, or the same one written anew, gets other files.
std::string CacheName(const ObjectStore& store, const std::string& key, const MdsShardInfo& info) {
  std::string identity = absl::StrCat(store.Location(key), "\n", info.raw.bytes, "\n", info.samples);
  for (const auto& [algorithm, digest] : info.raw.hashes) absl::StrAppend(&identity, "\n", algorithm, "\n", digest);
  for (const auto& [algorithm, digest] : info.stored().hashes)
    absl::StrAppend(&identity, "\n", algorithm, "\n", digest);
  return absl::StrCat(ChecksumText(Xxh3(identity)), ChecksumText(Xxh3(absl::StrCat(identity, "\n"))));
}

}  // namespace

absl::StatusOr<MdsIndex> FetchMdsIndex(ObjectStore& store, const std::string& folder) {
  const std::string key = KeyOf(folder, "index.json");
  ASSIGN_OR_RETURN(const std::string text, GetObject(store, key, kMaxIndexBytes));
  auto index = ParseMdsIndex(text);
  if (!index.ok()) return Annotate(index.status(), store.Location(key));
  return index;
}

ShardSource CachedShards(std::shared_ptr<ShardCache> cache, std::shared_ptr<ObjectStore> store, std::string folder,
                         std::string hash) {
  return [=](const MdsShardInfo& info) -> absl::StatusOr<OwnedBytes> {
    const std::string key = KeyOf(folder, info.stored().name);
    CachedItem item;
    item.name = CacheName(*store, key, info);
    item.bytes = info.raw.bytes;
    item.check = [&](absl::string_view content) {
      return CheckShardFile(info.raw, content, info.zip && info.raw.hashes.empty() ? "" : HashFor(info.raw, hash));
    };
    item.fetch = [&]() -> absl::StatusOr<std::string> {
      auto bytes = ReadWhole(*store, key, info.stored().bytes);
      if (!bytes.ok()) return Annotate(bytes.status(), store->Location(key));
      const absl::Status good = CheckShardFile(info.stored(), *bytes, HashFor(info.stored(), hash));
      if (!good.ok()) return Annotate(good, store->Location(key));
      if (!info.zip) return bytes;
      auto raw = Decompress(info.compression->codec, *bytes, info.raw.bytes);
      if (!raw.ok()) return Annotate(raw.status(), store->Location(key));
      return raw;
    };
    ASSIGN_OR_RETURN(const std::shared_ptr<const CachedFile> file, cache->Get(item));
    return OwnedBytes{file, file->bytes()};
  };
}

}  // namespace composer
