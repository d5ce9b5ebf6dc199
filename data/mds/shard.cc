// SPDX-License-Identifier: Apache-2.0
#include "data/mds/shard.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/format/little_endian.h"
#include "base/status_macros.h"

namespace composer {
namespace {

absl::Status DamagedShard(absl::string_view what) { return absl::DataLossError(absl::StrCat("the shard ", what)); }

size_t OffsetAt(absl::string_view bytes, int64_t sample) {
  return NumberAt(bytes, 4 * (static_cast<size_t>(sample) + 1));
}

}  // namespace

absl::Status CheckMdsHead(absl::string_view head, int64_t samples, int64_t bytes) {
  if (head.size() < 8 || NumberAt(head, 0) != samples || static_cast<size_t>(samples) > (head.size() - 8) / 4)
    return DamagedShard("does not have as many samples as the index says");
  auto before = 4 * (static_cast<size_t>(samples) + 2);
  for (int64_t sample = 0; sample <= samples; ++sample) {
    const size_t offset = OffsetAt(head, sample);
    if (offset < before || offset > static_cast<size_t>(bytes))
      return DamagedShard("has samples that overlap or lie behind its end");
    before = offset;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<const MdsShard>> MdsShard::Open(OwnedBytes owned, const MdsShardInfo& info) {
  if (!info.rows && static_cast<int64_t>(owned.bytes.size()) != info.raw.bytes)
    return DamagedShard(absl::StrCat("has ", owned.bytes.size(), " bytes, and the index says ", info.raw.bytes));
  return OpenSlice(std::move(owned), info, info.samples);
}

absl::StatusOr<std::shared_ptr<const MdsShard>> MdsShard::OpenSlice(OwnedBytes owned, const MdsShardInfo& info,
                                                                    int64_t samples) {
  RETURN_IF_ERROR(CheckMdsHead(owned.bytes, samples, static_cast<int64_t>(owned.bytes.size())));
  std::shared_ptr<MdsShard> shard(new MdsShard());
  for (const MdsColumn& column : info.columns) {
    shard->sizes_.push_back(column.encoding.size.value_or(-1));
    if (!column.encoding.size) shard->head_ += 4;
  }
  shard->samples_ = samples;
  shard->bytes_ = std::move(owned);
  return shard;
}

absl::Status MdsShard::Read(int64_t sample, absl::Span<absl::string_view> columns) const {
  const absl::string_view bytes = bytes_.bytes;
  const size_t begin = OffsetAt(bytes, sample), end = OffsetAt(bytes, sample + 1);
  size_t at = begin + head_, next_size = begin;
  if (at > end) return DamagedShard("has a sample that is shorter than its columns' sizes");
  for (size_t i = 0; i < columns.size(); ++i) {
    size_t size = static_cast<size_t>(sizes_[i]);
    if (sizes_[i] < 0) {
      size = NumberAt(bytes, next_size);
      next_size += 4;
    }
    if (size > end - at) return DamagedShard("has a sample that is shorter than its columns");
    columns[i] = bytes.substr(at, size);
    at += size;
  }
  return at == end ? absl::OkStatus() : DamagedShard("has a sample that is longer than its columns");
}

}  // namespace composer
