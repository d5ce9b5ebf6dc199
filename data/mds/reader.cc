// SPDX-License-Identifier: Apache-2.0
#include "data/mds/reader.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/file.h"
#include "base/status_macros.h"
#include "data/codec/hashing.h"
#include "data/mds/rows.h"
#include "storage/mapped_file.h"

namespace composer {
namespace {

absl::StatusOr<OwnedBytes> MapFile(const std::string& path) {
  ASSIGN_OR_RETURN(const std::shared_ptr<const MappedFile> file, MappedFile::Open(path));
  return OwnedBytes{file, file->bytes()};
}

// Maps a file of a folder, or decompresses it into memory if it lies there only compressed.
absl::StatusOr<OwnedBytes> OpenPart(const std::string& folder, const ShardPart& part,
                                    const std::optional<Compression>& compression, const std::string& hash) {
  const std::string raw = JoinPath(folder, part.raw.name);
  if (!part.zip || PathExists(raw)) {
    ASSIGN_OR_RETURN(OwnedBytes bytes, MapFile(raw));
    // A compressed shard's hash may be known only of the compressed file.
    RETURN_IF_ERROR(CheckShardFile(part.raw, bytes.bytes, part.zip && part.raw.hashes.empty() ? "" : hash));
    return bytes;
  }
  ASSIGN_OR_RETURN(const OwnedBytes stored, MapFile(JoinPath(folder, part.zip->name)));
  RETURN_IF_ERROR(CheckShardFile(*part.zip, stored.bytes, hash));
  auto bytes = Decompress(compression->codec, stored.bytes, part.raw.bytes);
  if (!bytes.ok()) return Annotate(bytes.status(), part.zip->name);
  const auto owner = std::make_shared<const std::string>(*std::move(bytes));
  return OwnedBytes{owner, *owner};
}

// Returns how many samples the slices of a shard have, but for its last.
int64_t SamplesOfSlice(const MdsShardInfo& info, std::optional<int64_t> slice_bytes) {
  if (!slice_bytes) return info.samples;
  const int64_t slices = std::max<int64_t>(1, info.raw.bytes / *slice_bytes);
  return (info.samples + slices - 1) / slices;
}

bool SameColumns(const std::vector<MdsColumn>& a, const std::vector<MdsColumn>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const MdsColumn& x, const MdsColumn& y) {
    return x.name == y.name && x.encoding.name == y.encoding.name;
  });
}

}  // namespace

absl::Status CheckShardFile(const ShardFile& file, absl::string_view bytes, absl::string_view hash) {
  if (static_cast<int64_t>(bytes.size()) != file.bytes) {
    return absl::DataLossError(
        absl::StrCat(file.name, " has ", bytes.size(), " bytes, and the index says ", file.bytes));
  }
  if (hash.empty()) return absl::OkStatus();
  for (const auto& [algorithm, digest] : file.hashes) {
    if (algorithm != hash) continue;
    ASSIGN_OR_RETURN(const std::string found, HashOf(hash, bytes));
    if (found == digest) return absl::OkStatus();
    return absl::DataLossError(
        absl::StrCat("the ", hash, " of ", file.name, " is ", found, ", and the index says ", digest.substr(0, 200)));
  }
  const auto append = [](std::string* out, const auto& pair) { out->append(pair.first); };
  return absl::InvalidArgumentError(
      absl::StrCat("the index has no ", hash, " of ", file.name,
                   "; it has: ", file.hashes.empty() ? "none" : absl::StrJoin(file.hashes, ", ", append)));
}

ShardSource LocalShards(std::string folder, std::string hash) {
  return [folder, hash](const MdsShardInfo& info, ShardSlice) -> absl::StatusOr<OwnedBytes> {
    std::vector<OwnedBytes> parts;
    for (const ShardPart& part : PartsOf(info)) {
      ASSIGN_OR_RETURN(parts.emplace_back(), OpenPart(folder, part, info.compression, hash));
    }
    if (parts.size() == 1) return MdsOfPlain(std::move(parts[0]), info);
    const std::string plain = absl::StrCat(parts[0].bytes, parts[1].bytes);
    return MdsOfPlain({nullptr, plain}, info);
  };
}

absl::StatusOr<MdsIndex> ReadMdsIndex(const std::string& folder) {
  const std::string path = JoinPath(folder, "index.json");
  ASSIGN_OR_RETURN(const std::string text, ReadFile(path, kMaxIndexBytes));
  auto index = ParseMdsIndex(text);
  if (!index.ok()) return Annotate(index.status(), path);
  return index;
}

absl::StatusOr<std::unique_ptr<MdsReader>> MdsReader::Create(MdsIndex index, ShardSource source, size_t max_open,
                                                             std::optional<int64_t> slice_bytes) {
  if (index.shards.empty()) return absl::InvalidArgumentError("the data set has no shards");
  for (const MdsShardInfo& info : index.shards) {
    if (!SameColumns(info.columns, index.shards[0].columns)) {
      return absl::InvalidArgumentError(
          absl::StrCat("shard ", info.raw.name, " has other columns than ", index.shards[0].raw.name));
    }
  }
  return std::unique_ptr<MdsReader>(
      new MdsReader(std::move(index), std::move(source), std::max<size_t>(1, max_open), slice_bytes));
}

MdsReader::MdsReader(MdsIndex index, ShardSource source, size_t max_open, std::optional<int64_t> slice_bytes)
    : index_(std::move(index)), source_(std::move(source)), max_open_(max_open), first_sample_{0} {
  for (size_t shard = 0; shard < index_.shards.size(); ++shard) {
    const MdsShardInfo& info = index_.shards[shard];
    const int64_t samples = SamplesOfSlice(info, slice_bytes);
    shard_begins_.push_back(first_sample_.back());
    for (int64_t first = 0; first < info.samples; first += samples) {
      const int64_t end = shard_begins_.back() + std::min(first + samples, info.samples);
      for (auto run = static_cast<int64_t>(slice_of_run_.size()); (run << kRunBits) < end; ++run)
        slice_of_run_.push_back(static_cast<uint32_t>(shard_of_slice_.size()));
      shard_of_slice_.push_back(static_cast<uint32_t>(shard));
      first_sample_.push_back(end);
    }
  }
  open_.resize(shard_of_slice_.size());
}

std::vector<int64_t> MdsReader::ShardSizes() const {
  std::vector<int64_t> sizes;
  for (const MdsShardInfo& info : index_.shards) sizes.push_back(info.samples);
  return sizes;
}

size_t MdsReader::SliceOf(int64_t id) const {
  size_t slice = slice_of_run_[static_cast<size_t>(id >> kRunBits)];
  while (id >= first_sample_[slice + 1]) ++slice;
  return slice;
}

absl::StatusOr<OwnedBytes> MdsReader::Get(size_t slice) const {
  const int64_t first = first_sample_[slice];
  return source_(ShardOf(slice), {NumberInShard(first, slice), first_sample_[slice + 1] - first});
}

absl::Status MdsReader::Fetch(size_t slice) const { return Get(slice).status(); }

absl::Status MdsReader::Read(int64_t id, MdsSample& sample) {
  if (id < 0 || id >= size())
    return absl::OutOfRangeError(absl::StrCat("sample ", id, " is not one of the ", size(), " samples"));
  const size_t slice = SliceOf(id);
  if (sample.reader != this || sample.slice != slice) {
    ASSIGN_OR_RETURN(sample.shard, OpenSlice(slice));
    sample.slice = slice;
    sample.reader = this;
    sample.columns.resize(columns().size());
  }
  const absl::Status read = sample.shard->Read(id - first_sample_[slice], absl::MakeSpan(sample.columns));
  if (read.ok()) return read;
  return Annotate(read, absl::StrCat(ShardOf(slice).raw.name, ", sample ", NumberInShard(id, slice)));
}

// Threads that need the same slice at once may both open it; one of the two stays.
absl::StatusOr<std::shared_ptr<const MdsShard>> MdsReader::OpenSlice(size_t slice) {
  {
    absl::MutexLock lock(&mutex_);
    if (open_[slice] != nullptr) return open_[slice];
  }
  const MdsShardInfo& info = ShardOf(slice);
  const int64_t samples = first_sample_[slice + 1] - first_sample_[slice];
  ASSIGN_OR_RETURN(OwnedBytes bytes, Get(slice));
  auto shard = MdsShard::OpenSlice(std::move(bytes), info, samples);  // the source has checked the size
  if (!shard.ok()) return Annotate(shard.status(), info.raw.name);
  absl::MutexLock lock(&mutex_);
  if (open_[slice] == nullptr) {
    open_[slice] = *shard;
    opened_.push_back(slice);
    if (opened_.size() > max_open_) {
      open_[opened_.front()] = nullptr;
      opened_.pop_front();
    }
  }
  return open_[slice];
}

}  // namespace composer
