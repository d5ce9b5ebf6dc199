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

}  // namespace

std::string ShardCacheName(absl::string_view location, const MdsShardInfo& info) {
  std::string identity = absl::StrCat(location, "\n", PlainBytes(info), "\n", info.samples);
  for (const ShardPart& part : PartsOf(info)) {
    for (const ShardFile* const file : {&part.raw, &part.stored()}) {
      for (const auto& [algorithm, digest] : file->hashes) absl::StrAppend(&identity, "\n", algorithm, "\n", digest);
    }
  }
  const std::string first = ChecksumText(Xxh3(identity));
  return absl::StrCat(first, ChecksumText(Xxh3(absl::StrCat(first, identity))));
}

ShardSource CachedShards(std::shared_ptr<ShardCache> cache, std::shared_ptr<ObjectStore> store, std::string folder,
                         std::string hash) {
  return [=](const MdsShardInfo& shard, ShardSlice) -> absl::StatusOr<OwnedBytes> {
    const auto info = std::make_shared<const MdsShardInfo>(shard);  // a fetch may outlive the reader
    const auto check = [info, hash](const ShardFile& file, absl::string_view bytes) {
      // A compressed shard's hash may be known only of the compressed file.
      const bool unknown = info->zip && file.hashes.empty();
      return CheckShardFile(file, bytes, unknown ? "" : HashFor(file, hash));
    };
    CachedItem item;
    item.place = store->Location(MdsKey(folder, info->stored().name));
    item.name = ShardCacheName(item.place, *info);
    item.bytes = PlainBytes(*info);
    item.check = [&](absl::string_view content) {
      for (const ShardPart& part : PartsOf(*info)) {
        RETURN_IF_ERROR(check(part.raw, content.substr(0, static_cast<size_t>(part.raw.bytes))));
        content.remove_prefix(static_cast<size_t>(part.raw.bytes));
      }
      return absl::OkStatus();
    };
    item.fetch = [=] { return FetchShard(*store, folder, *info, check); };
    ASSIGN_OR_RETURN(const std::shared_ptr<const CachedFile> file, cache->Get(item));
    return MdsOfPlain({file, file->bytes()}, *info);
  };
}

ShardsAhead::ShardsAhead(std::function<void(size_t shard)> fetch, size_t most)
    : fetch_(std::move(fetch)), most_(std::max<size_t>(1, most)), thread_([this] { Run(); }) {}

ShardsAhead::~ShardsAhead() {
  {
    const absl::MutexLock lock(&mutex_);
    ends_ = true;
  }
  thread_.join();
}

void ShardsAhead::Want(size_t shard) {
  const absl::MutexLock lock(&mutex_);
  if (waiting_.size() >= most_ || !known_.insert(shard).second) return;
  waiting_.push_back(shard);
  recent_.push_back(shard);
  if (recent_.size() <= most_) return;
  known_.erase(recent_.front());
  recent_.pop_front();
}

void ShardsAhead::Run() {
  for (;;) {
    size_t shard = 0;
    {
      const absl::MutexLock lock(&mutex_);
      const auto has_work = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return ends_ || !waiting_.empty(); };
      mutex_.Await(absl::Condition(&has_work));
      if (ends_) return;
      shard = waiting_.front();
      waiting_.pop_front();
    }
    fetch_(shard);
  }
}

}  // namespace composer
