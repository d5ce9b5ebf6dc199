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
  return [folder, hash](const MdsShardInfo& info) -> absl::StatusOr<OwnedBytes> {
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

absl::StatusOr<std::unique_ptr<MdsReader>> MdsReader::Create(MdsIndex index, ShardSource source, size_t max_open) {
  if (index.shards.empty()) return absl::InvalidArgumentError("the data set has no shards");
  for (const MdsShardInfo& info : index.shards) {
    if (!SameColumns(info.columns, index.shards[0].columns)) {
      return absl::InvalidArgumentError(
          absl::StrCat("shard ", info.raw.name, " has other columns than ", index.shards[0].raw.name));
    }
  }
  return std::unique_ptr<MdsReader>(new MdsReader(std::move(index), std::move(source), std::max<size_t>(1, max_open)));
}

MdsReader::MdsReader(MdsIndex index, ShardSource source, size_t max_open)
    : index_(std::move(index)), source_(std::move(source)), max_open_(max_open), first_sample_{0} {
  for (const MdsShardInfo& info : index_.shards) {
    const int64_t end = first_sample_.back() + info.samples;
    for (auto run = static_cast<int64_t>(shard_of_run_.size()); (run << kRunBits) < end; ++run)
      shard_of_run_.push_back(static_cast<uint32_t>(first_sample_.size() - 1));
    first_sample_.push_back(end);
  }
  open_.resize(index_.shards.size());
}

std::vector<int64_t> MdsReader::ShardSizes() const {
  std::vector<int64_t> sizes;
  for (const MdsShardInfo& info : index_.shards) sizes.push_back(info.samples);
  return sizes;
}

size_t MdsReader::ShardOf(int64_t id) const {
  size_t shard = shard_of_run_[static_cast<size_t>(id >> kRunBits)];
  while (id >= first_sample_[shard + 1]) ++shard;
  return shard;
}

absl::Status MdsReader::Read(int64_t id, MdsSample& sample) {
  if (id < 0 || id >= size())
    return absl::OutOfRangeError(absl::StrCat("sample ", id, " is not one of the ", size(), " samples"));
  const size_t number = ShardOf(id);
  if (sample.reader != this || sample.shard_number != number) {
    ASSIGN_OR_RETURN(sample.shard, OpenShard(number));
    sample.shard_number = number;
    sample.reader = this;
    sample.columns.resize(columns().size());
  }
  const absl::Status read = sample.shard->Read(id - first_sample_[number], absl::MakeSpan(sample.columns));
  if (read.ok()) return read;
  return Annotate(read, absl::StrCat(index_.shards[number].raw.name, ", sample ", id - first_sample_[number]));
}

// Threads that need the same shard at once may both open it; one of the two stays.
absl::StatusOr<std::shared_ptr<const MdsShard>> MdsReader::OpenShard(size_t number) {
  {
    absl::MutexLock lock(&mutex_);
    if (open_[number] != nullptr) return open_[number];
  }
  const MdsShardInfo& info = index_.shards[number];
  ASSIGN_OR_RETURN(OwnedBytes bytes, source_(info));
  auto shard = MdsShard::Open(std::move(bytes), info);
  if (!shard.ok()) return Annotate(shard.status(), info.raw.name);
  absl::MutexLock lock(&mutex_);
  if (open_[number] == nullptr) {
    open_[number] = *shard;
    opened_.push_back(number);
    if (opened_.size() > max_open_) {
      open_[opened_.front()] = nullptr;
      opened_.pop_front();
    }
  }
  return open_[number];
}

}  // namespace composer
