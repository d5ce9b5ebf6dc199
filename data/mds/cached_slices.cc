// SPDX-License-Identifier: Apache-2.0
#include "data/mds/cached_slices.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/format/little_endian.h"
#include "base/status_macros.h"
#include "data/cache/whole_object.h"
#include "data/mds/cached_shards.h"
#include "data/mds/fetch.h"
#include "storage/checksum.h"

namespace composer {
namespace {

constexpr size_t kChecksumBytes = 8;

void AppendChecksum(std::string& content) { AppendNumber(Xxh3(content), content); }

// The content, of the size that its item says.
absl::string_view WithoutChecksum(absl::string_view content) {
  return content.substr(0, content.size() - kChecksumBytes);
}

absl::Status CheckChecksum(absl::string_view content) {
  const absl::string_view bytes = WithoutChecksum(content);
  if (Xxh3(bytes) == NumberAt<uint64_t>(content, bytes.size())) return absl::OkStatus();
  return absl::DataLossError("what the cache has kept of it is damaged");
}

// A shard in a store. Fetches may outlive who asked for them, so they share it.
struct RemoteShard {
  std::shared_ptr<ObjectStore> store;
  std::string key;
  MdsShardInfo info;

  std::string place() const { return store->Location(key); }
  int64_t head_bytes() const { return 4 * (info.samples + 2); }
};

absl::StatusOr<std::string> FetchHead(const RemoteShard& shard) {
  ASSIGN_OR_RETURN(const int64_t found, shard.store->Size(shard.key));
  if (found != shard.info.raw.bytes)
    return absl::DataLossError(absl::StrCat("it has ", found, " bytes, and the index says ", shard.info.raw.bytes));
  if (shard.head_bytes() > found) return absl::DataLossError("it is too short for its samples' offsets");
  ASSIGN_OR_RETURN(std::string head, ReadObjectRange(*shard.store, shard.key, 0, shard.head_bytes()));
  AppendChecksum(head);
  return head;
}

absl::Status CheckHead(const RemoteShard& shard, absl::string_view content) {
  RETURN_IF_ERROR(CheckChecksum(content));
  return CheckMdsHead(WithoutChecksum(content), shard.info.samples, shard.info.raw.bytes);
}

// A slice's samples are at [offsets.front(), offsets.back()) of the shard.
absl::StatusOr<std::string> FetchSlice(const RemoteShard& shard, const std::vector<uint32_t>& offsets) {
  const auto samples = static_cast<uint32_t>(offsets.size() - 1);
  const uint32_t begin = 4 * (samples + 2);
  std::string slice;
  AppendNumber(samples, slice);
  for (const uint32_t offset : offsets) AppendNumber(begin + (offset - offsets.front()), slice);
  ASSIGN_OR_RETURN(const std::string values, ReadObjectRange(*shard.store, shard.key, offsets.front(),
                                                             int64_t{offsets.back()} - offsets.front()));
  slice += values;
  AppendChecksum(slice);
  return slice;
}

absl::Status CheckSlice(const MdsShardInfo& info, ShardSlice slice, absl::string_view content) {
  RETURN_IF_ERROR(CheckChecksum(content));
  ASSIGN_OR_RETURN(const auto shard, MdsShard::OpenSlice({nullptr, WithoutChecksum(content)}, info, slice.count));
  std::vector<absl::string_view> columns(info.columns.size());
  for (int64_t i = 0; i < slice.count; ++i) {
    const absl::Status read = shard->Read(i, absl::MakeSpan(columns));
    if (!read.ok()) return Annotate(read, absl::StrCat("sample ", slice.first + i));
  }
  return absl::OkStatus();
}

// Returns an item of which `fetch` and `check` name the place.
CachedItem ItemOf(const std::shared_ptr<const RemoteShard>& shard, const std::string& name, int64_t bytes,
                  std::function<absl::StatusOr<std::string>()> fetch,
                  std::function<absl::Status(absl::string_view content)> check) {
  CachedItem item;
  item.place = shard->place();
  item.name = absl::StrCat(ShardCacheName(item.place, shard->info), "-", name);
  item.bytes = bytes + static_cast<int64_t>(kChecksumBytes);
  item.fetch = [place = item.place, fetch = std::move(fetch)]() -> absl::StatusOr<std::string> {
    absl::StatusOr<std::string> content = fetch();
    if (!content.ok()) return Annotate(content.status(), place);
    return content;
  };
  item.check = [place = item.place, check = std::move(check)](absl::string_view content) {
    const absl::Status good = check(content);
    return good.ok() ? good : Annotate(good, place);
  };
  return item;
}

CachedItem HeadOf(const std::shared_ptr<const RemoteShard>& shard) {
  return ItemOf(
      shard, "head", shard->head_bytes(), [shard] { return FetchHead(*shard); },
      [shard](absl::string_view content) { return CheckHead(*shard, content); });
}

std::vector<uint32_t> OffsetsIn(absl::string_view head, ShardSlice slice) {
  std::vector<uint32_t> offsets(static_cast<size_t>(slice.count) + 1);
  for (size_t i = 0; i < offsets.size(); ++i)
    offsets[i] = NumberAt(head, 4 * (static_cast<size_t>(slice.first) + i + 1));
  return offsets;
}

CachedItem SliceOf(const std::shared_ptr<const RemoteShard>& shard, ShardSlice slice,
                   const std::vector<uint32_t>& offsets) {
  const int64_t bytes = 4 * (slice.count + 2) + offsets.back() - offsets.front();
  return ItemOf(
      shard, absl::StrCat(slice.first, "-", slice.count), bytes, [=] { return FetchSlice(*shard, offsets); },
      [=](absl::string_view content) { return CheckSlice(shard->info, slice, content); });
}

}  // namespace

absl::Status CheckSlices(const MdsIndex& index) {
  for (const MdsShardInfo& shard : index.shards) {
    const std::string what = shard.zip    ? absl::StrCat("compressed with ", shard.compression_text)
                             : shard.rows ? absl::StrCat("of the format ", shard.rows->format)
                                          : "";
    if (what.empty()) continue;
    return absl::InvalidArgumentError(absl::StrCat("shard ", shard.raw.name, " is ", what,
                                                   "; only MDS shards that are not compressed can be fetched in part"));
  }
  return absl::OkStatus();
}

ShardSource CachedSlices(std::shared_ptr<ShardCache> cache, std::shared_ptr<ObjectStore> store, std::string folder) {
  return [=](const MdsShardInfo& info, ShardSlice slice) -> absl::StatusOr<OwnedBytes> {
    const auto shard = std::make_shared<const RemoteShard>(store, MdsKey(folder, info.raw.name), info);
    const CachedItem head = HeadOf(shard);
    for (bool again = false;; again = true) {
      ASSIGN_OR_RETURN(std::shared_ptr<const CachedFile> head_file, cache->Get(head));
      const CachedItem item = SliceOf(shard, slice, OffsetsIn(head_file->bytes(), slice));
      head_file.reset();
      const absl::StatusOr<std::shared_ptr<const CachedFile>> file = cache->Get(item);
      if (file.ok()) return OwnedBytes{*file, WithoutChecksum((*file)->bytes())};
      // Offsets that are in order may still be wrong.
      if (absl::IsDataLoss(file.status())) cache->Forget(head.name);
      if (again || !absl::IsDataLoss(file.status())) return file.status();
    }
  };
}

}  // namespace composer
