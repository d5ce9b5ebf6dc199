// Runs the readers of MDS on arbitrary bytes: an index (what is parsed must survive being written and parsed again), a
// shard, whose samples must lie inside it, a value of each encoding, and each decompressor.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/format/little_endian.h"
#include "data/codec/compression.h"
#include "data/mds/index.h"
#include "data/mds/rows.h"
#include "data/mds/shard.h"

namespace {

void TryIndex(absl::string_view text) {
  const auto index = composer::ParseMdsIndex(text);
  if (!index.ok()) return;
  const std::string written = composer::MdsIndexText(*index);
  const auto again = composer::ParseMdsIndex(written);
  if (!again.ok() || composer::MdsIndexText(*again) != written) std::abort();
}

void TryShard(absl::string_view bytes) {
  composer::MdsShardInfo info;
  for (const char* const name : {"str", "int", "ndarray", "list[png]"})
    info.columns.push_back({name, composer::ParseMdsEncoding(name).value()});
  info.raw.bytes = static_cast<int64_t>(bytes.size());
  if (bytes.size() >= 4) info.samples = composer::NumberAt(bytes, 0);
  const auto shard = composer::MdsShard::Open({nullptr, bytes}, info);
  if (!shard.ok()) return;
  std::vector<absl::string_view> columns(info.columns.size());
  for (int64_t i = 0; i < (*shard)->size(); ++i) {
    if (!(*shard)->Read(i, absl::MakeSpan(columns)).ok()) continue;
    for (size_t c = 0; c < columns.size(); ++c) {
      if (columns[c].data() < bytes.data() || columns[c].end() > bytes.end()) std::abort();
      (void)composer::CheckValue(info.columns[c].encoding, columns[c]);
    }
  }
}

// Rows between tabs, or JSON, whose meta file follows the data.
void TryRows(absl::string_view bytes, const char* format) {
  composer::MdsShardInfo info;
  for (const char* const name : {"str", "int", "float64"})
    info.columns.push_back({name, composer::ParseMdsEncoding(name).value()});
  const size_t data = bytes.empty() ? 0 : std::min(bytes.size(), size_t{static_cast<uint8_t>(bytes[0])});
  info.raw.bytes = static_cast<int64_t>(data);
  info.rows = composer::RowShard{format, "\t", "\n", {"", static_cast<int64_t>(bytes.size() - data), {}}, {}};
  if (bytes.size() - data >= 4) info.samples = composer::NumberAt(bytes, data);
  const auto mds = composer::MdsOfPlain({nullptr, bytes}, info);
  if (!mds.ok()) return;
  const auto shard = composer::MdsShard::Open(*mds, info);
  if (!shard.ok()) std::abort();
  std::vector<absl::string_view> columns(info.columns.size());
  for (int64_t i = 0; i < (*shard)->size(); ++i) {
    if (!(*shard)->Read(i, absl::MakeSpan(columns)).ok()) std::abort();
  }
}

void TryValue(absl::string_view bytes) {
  for (const char* const name : {"str", "json", "str_int", "str_float", "int", "ndarray", "ndarray:int16",
                                 "ndarray:int16:2,3", "pil", "jpeg_array", "list[pil]", "list[jpeg]"}) {
    const composer::MdsEncoding encoding = composer::ParseMdsEncoding(name).value();
    const bool good = composer::CheckValue(encoding, bytes).ok();
    if (!good || encoding.kind != composer::MdsKind::kArray) continue;
    // Dimensions may be stored wider than the writer stores them, so only the array must be the same.
    const composer::MdsArray array = composer::ReadArray(encoding, bytes).value();
    const std::string written = composer::WriteArray(encoding, array).value();
    if (composer::ReadArray(encoding, written).value().values != array.values) std::abort();
  }
  (void)composer::ParseMdsEncoding(bytes);
  (void)composer::ParseCompression(bytes);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const absl::string_view bytes(reinterpret_cast<const char*>(data + 1), size - 1);
  switch (data[0] % 6) {
    case 0:
      TryIndex(bytes);
      break;
    case 1:
      TryShard(bytes);
      break;
    case 2:
      TryValue(bytes);
      break;
    case 3:
      TryRows(bytes, "tsv");
      break;
    case 4:
      TryRows(bytes, "json");
      break;
    default:
      for (const auto codec : {composer::Codec::kZstd, composer::Codec::kGzip, composer::Codec::kBzip2,
                               composer::Codec::kBrotli, composer::Codec::kSnappy})
        (void)composer::Decompress(codec, bytes, data[0] * 16);
  }
  return 0;
}
