// SPDX-License-Identifier: Apache-2.0
#include "data/mds/cached_shards.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "data/mds/fetch.h"
#include "data/mds/rows.h"
#include "storage/checksum.h"

namespace composer {
namespace {

// The hash to check of this file: the wanted one, or the fastest, or none.
std::string HashFor(const ShardFile& file, const std::string& wanted) {
  if (!wanted.empty() || file.hashes.empty()) return wanted;
  const auto fast = std::find_if(file.hashes.begin(), file.hashes.end(),
                                 [](const auto& hash) { return absl::StartsWith(hash.first, "xxh"); });
  return fast == file.hashes.end() ? file.hashes[0].first : fast->first;
}

// Unique for the content: another data set, or the same one written anew, gets other files.
std::string CacheName(absl::string_view location, const MdsShardInfo& info) {
  std::string identity = absl::StrCat(location, "\n", PlainBytes(info), "\n", info.samples);
  for (const ShardPart& part : PartsOf(info)) {
    for (const ShardFile* const file : {&part.raw, &part.stored()}) {
      for (const auto& [algorithm, digest] : file->hashes) absl::StrAppend(&identity, "\n", algorithm, "\n", digest);
    }
  }
  const std::string first = ChecksumText(Xxh3(identity));
  return absl::StrCat(first, ChecksumText(Xxh3(absl::StrCat(first, identity))));
}

}  // namespace

ShardSource CachedShards(std::shared_ptr<ShardCache> cache, std::shared_ptr<ObjectStore> store, std::string folder,
                         std::string hash) {
  return [=](const MdsShardInfo& info) -> absl::StatusOr<OwnedBytes> {
    const auto check = [&](const ShardFile& file, absl::string_view bytes) {
      // A compressed shard's hash may be known only of the compressed file.
      const bool unknown = info.zip && file.hashes.empty();
      return CheckShardFile(file, bytes, unknown ? "" : HashFor(file, hash));
    };
    CachedItem item;
    item.name = CacheName(store->Location(MdsKey(folder, info.stored().name)), info);
    item.bytes = PlainBytes(info);
    item.check = [&](absl::string_view content) {
      for (const ShardPart& part : PartsOf(info)) {
        RETURN_IF_ERROR(check(part.raw, content.substr(0, static_cast<size_t>(part.raw.bytes))));
        content.remove_prefix(static_cast<size_t>(part.raw.bytes));
      }
      return absl::OkStatus();
    };
    item.fetch = [&] { return FetchShard(*store, folder, info, check); };
    ASSIGN_OR_RETURN(const std::shared_ptr<const CachedFile> file, cache->Get(item));
    return MdsOfPlain({file, file->bytes()}, info);
  };
}

}  // namespace composer
