// SPDX-License-Identifier: Apache-2.0
#include "data/mds/writer.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/format/little_endian.h"
#include "base/status_macros.h"
#include "data/codec/hashing.h"

namespace composer {
namespace {

constexpr int64_t kMostShardBytes = int64_t{1} << 32;  // offsets are 32 bits wide

absl::StatusOr<MdsShardInfo> InfoOf(MdsWriterOptions& options) {
  MdsShardInfo info;
  std::sort(options.columns.begin(), options.columns.end());
  if (options.columns.empty()) return absl::InvalidArgumentError("a data set needs at least one column");
  for (const auto& [name, encoding] : options.columns) {
    if (!info.columns.empty() && info.columns.back().name == name)
      return absl::InvalidArgumentError(absl::StrCat("column `", name, "` is given twice"));
    auto parsed = ParseMdsEncoding(encoding);
    if (!parsed.ok()) return Annotate(parsed.status(), absl::StrCat("column `", name, "`"));
    info.columns.push_back({name, *std::move(parsed)});
  }
  if (!options.compression.empty()) {
    ASSIGN_OR_RETURN(info.compression, ParseCompression(options.compression));
  }
  info.compression_text = options.compression;
  for (const std::string& hash : options.hashes) RETURN_IF_ERROR(CheckHashName(hash));
  if (!std::is_sorted(options.hashes.begin(), options.hashes.end(), std::less_equal<>()))
    return absl::InvalidArgumentError("hashes must be sorted, and each be given once");
  info.hashes = options.hashes;
  info.size_limit = options.size_limit;
  if (info.size_limit.value_or(1) <= 0 || info.size_limit.value_or(1) >= kMostShardBytes)
    return absl::InvalidArgumentError(
        absl::StrCat("size_limit is ", *info.size_limit, " bytes; it must be from 1 to ", kMostShardBytes - 1));
  return info;
}

absl::StatusOr<ShardFile> FileOf(std::string name, absl::string_view bytes, const std::vector<std::string>& hashes) {
  ShardFile file{std::move(name), static_cast<int64_t>(bytes.size()), {}};
  for (const std::string& hash : hashes) {
    ASSIGN_OR_RETURN(std::string digest, HashOf(hash, bytes));
    file.hashes.emplace_back(hash, std::move(digest));
  }
  return file;
}

// Hashes, compresses and stores a shard. Returns what the index says of it.
absl::StatusOr<MdsShardInfo> StoreShard(ObjectStore& store, MdsShardInfo info, const std::string& name,
                                        const std::string& raw) {
  ASSIGN_OR_RETURN(info.raw, FileOf(name, raw, info.hashes));
  if (!info.compression) {
    RETURN_IF_ERROR(store.Put(name, {raw}));
    return info;
  }
  ASSIGN_OR_RETURN(const std::string zip, Compress(*info.compression, raw));
  ASSIGN_OR_RETURN(info.zip,
                   FileOf(absl::StrCat(name, ".", CompressionExtension(info.compression->codec)), zip, info.hashes));
  RETURN_IF_ERROR(store.Put(info.zip->name, {zip}));
  return info;
}

}  // namespace

absl::StatusOr<std::unique_ptr<MdsWriter>> MdsWriter::Create(std::shared_ptr<ObjectStore> store,
                                                             MdsWriterOptions options) {
  if (options.threads < 1) return absl::InvalidArgumentError(absl::StrCat("threads is ", options.threads, ", below 1"));
  ASSIGN_OR_RETURN(MdsShardInfo info, InfoOf(options));
  const auto size = store->Size("index.json");
  if (size.ok()) return absl::AlreadyExistsError(absl::StrCat(store->Location("index.json"), " exists already"));
  if (!absl::IsNotFound(size.status())) return size.status();
  return std::unique_ptr<MdsWriter>(new MdsWriter(std::move(store), std::move(info), std::move(options)));
}

MdsWriter::MdsWriter(std::shared_ptr<ObjectStore> store, MdsShardInfo info, MdsWriterOptions options)
    : store_(std::move(store)),
      info_(std::move(info)),
      config_(MdsShardConfigText(info_)),
      threads_(static_cast<size_t>(options.threads)),
      on_shard_(std::move(options.on_shard)),
      index_(std::move(options.begun)),
      shard_size_(8 + static_cast<int64_t>(config_.size())) {}

absl::Status MdsWriter::Write(absl::Span<const absl::string_view> values) {
  if (values.size() != info_.columns.size())
    return absl::InvalidArgumentError(
        absl::StrCat("a sample has ", values.size(), " values, and the data set ", info_.columns.size(), " columns"));
  int64_t size = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const MdsColumn& column = info_.columns[i];
    const absl::Status good = CheckValue(column.encoding, values[i]);
    if (!good.ok()) return absl::InvalidArgumentError(absl::StrCat("column `", column.name, "`: ", good.message()));
    size += static_cast<int64_t>(values[i].size()) + (column.encoding.size ? 0 : 4);
  }
  constexpr int64_t kOffset = 4;
  // Like MDSWriter, this leaves an empty first shard when the first sample alone is too large for one. A later shard is
  // empty here only when it is the first that follows those of a write that was left unfinished.
  const bool follows = sizes_.empty() && index_.shards.size() + pending_.size() > 0;
  if (info_.size_limit && *info_.size_limit < shard_size_ + size + kOffset && !follows) RETURN_IF_ERROR(Flush());
  if (shard_size_ + size + kOffset >= kMostShardBytes)
    return absl::InvalidArgumentError("a shard would have 4 GiB or more; give a size_limit");
  for (size_t i = 0; i < values.size(); ++i) {
    if (!info_.columns[i].encoding.size) AppendNumber(static_cast<uint32_t>(values[i].size()), samples_);
  }
  for (const absl::string_view value : values) absl::StrAppend(&samples_, value);
  sizes_.push_back(static_cast<uint32_t>(size));
  shard_size_ += size + kOffset;
  return absl::OkStatus();
}

absl::Status MdsWriter::Flush() {
  std::string head;
  AppendNumber(static_cast<uint32_t>(sizes_.size()), head);
  auto offset = static_cast<uint32_t>(4 + 4 * (sizes_.size() + 1) + config_.size());
  AppendNumber(offset, head);
  for (const uint32_t size : sizes_) AppendNumber(offset += size, head);
  const std::string raw = absl::StrCat(head, config_, samples_);
  MdsShardInfo info = info_;
  info.samples = static_cast<int64_t>(sizes_.size());
  const std::string name = absl::StrFormat("shard.%05d.mds", index_.shards.size() + pending_.size());
  // Deferred: by this thread, when it takes the result.
  pending_.push_back(
      std::async(threads_ > 1 ? std::launch::async : std::launch::deferred,
                 [store = store_, info = std::move(info), name, raw] { return StoreShard(*store, info, name, raw); }));
  RETURN_IF_ERROR(TakeStored(threads_ - 1));
  sizes_.clear();
  samples_.clear();
  shard_size_ = 8 + static_cast<int64_t>(config_.size());
  return absl::OkStatus();
}

// Waits until so many shards are on their way.
absl::Status MdsWriter::TakeStored(size_t most_pending) {
  while (pending_.size() > most_pending) {
    ASSIGN_OR_RETURN(MdsShardInfo stored, pending_.front().get());
    pending_.pop_front();
    index_.shards.push_back(std::move(stored));
    if (on_shard_) RETURN_IF_ERROR(on_shard_(index_));
  }
  return absl::OkStatus();
}

absl::Status MdsWriter::Finish() {
  if (!sizes_.empty()) RETURN_IF_ERROR(Flush());
  RETURN_IF_ERROR(TakeStored(0));
  return store_->Put("index.json", {MdsIndexText(index_)});
}

}  // namespace composer
