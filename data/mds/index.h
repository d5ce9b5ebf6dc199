// index.json, version 2, of data sets in mosaicml-streaming's MDS format, or in its formats of text rows: one entry for
// each shard. Its presence is the data set's commit: it is written after all shards.
//
// What it says is hostile until checked: names of files must stay inside the folder, numbers be in range, encodings
// known. Source: streaming/base/format/mds/reader.py and index.py of mosaicml-streaming 0.13.0.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "data/codec/compression.h"
#include "data/mds/encoding.h"

namespace composer {

inline constexpr int64_t kMaxIndexBytes = int64_t{1} << 30;

// A file of a shard.
struct ShardFile {
  std::string name;  // relative to the index's folder
  int64_t bytes = 0;
  std::vector<std::pair<std::string, std::string>> hashes;  // algorithm and hexadecimal digest
};

struct MdsColumn {
  std::string name;
  MdsEncoding encoding;
};

// A shard of text rows instead of an MDS shard: rows.h.
struct RowShard {
  std::string format;  // "json", "csv", "tsv" or "xsv"
  std::string separator, newline;
  ShardFile raw_meta;
  std::optional<ShardFile> zip_meta;
};

struct MdsShardInfo {
  std::vector<MdsColumn> columns;
  std::optional<Compression> compression;
  std::string compression_text;  // as the index has it
  ShardFile raw;                 // the shard
  std::optional<ShardFile> zip;  // the compressed shard, which is then what was written
  int64_t samples = 0;
  std::vector<std::string> hashes;
  std::optional<int64_t> size_limit;
  std::optional<RowShard> rows;  // raw and zip are then its data

  const ShardFile& stored() const { return zip ? *zip : raw; }
};

// One of the files that a shard consists of: one, or for rows data and meta.
struct ShardPart {
  const ShardFile& raw;
  const std::optional<ShardFile>& zip;
  // The file to fetch.
  const ShardFile& stored() const { return zip ? *zip : raw; }
};
// The parts of a shard, one after the other uncompressed, are its plain bytes. They point into `info`.
std::vector<ShardPart> PartsOf(const MdsShardInfo& info);
int64_t PlainBytes(const MdsShardInfo& info);

// Samples [first, first + count) of a shard.
struct ShardSlice {
  int64_t first = 0;
  int64_t count = 0;
};

struct MdsIndex {
  std::vector<MdsShardInfo> shards;
};

// kDataLoss: damaged; kInvalidArgument: names the shard and what is refused or not supported in it.
absl::StatusOr<MdsIndex> ParseMdsIndex(absl::string_view text);
// The bytes that MDSWriter writes.
std::string MdsIndexText(const MdsIndex& index);
// The configuration that MDSWriter puts into a shard.
std::string MdsShardConfigText(const MdsShardInfo& info);

// Joins indices of folders, whose names (`parts[i].first`, without '/') then precede the shards' names, as
// streaming.base.util.merge_index does.
absl::StatusOr<MdsIndex> MergeMdsIndices(const std::vector<std::pair<std::string, MdsIndex>>& parts);

}  // namespace composer
