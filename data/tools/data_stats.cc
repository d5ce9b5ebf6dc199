// SPDX-License-Identifier: Apache-2.0
#include "data/tools/data_stats.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/synchronization/mutex.h"
#include "base/status_macros.h"
#include "data/mds/encoding.h"
#include "data/mds/fetch.h"
#include "data/mds/reader.h"
#include "data/mds/rows.h"
#include "data/mds/shard.h"
#include "storage/checksum.h"

namespace composer {
namespace {

// 16 buckets for each power of two; lengths below 16 have one each.
size_t BucketOf(int64_t length) {
  if (length < 16) return static_cast<size_t>(length);
  const int bits = 63 - std::countl_zero(static_cast<uint64_t>(length));
  return static_cast<size_t>(16 * (bits - 3) + (length >> (bits - 4)) - 16);
}
// The longest length of a bucket.
int64_t EndOf(size_t bucket) {
  if (bucket < 16) return static_cast<int64_t>(bucket);
  const int64_t shift = static_cast<int64_t>(bucket / 16) - 1;
  return ((static_cast<int64_t>(bucket % 16) + 17) << shift) - 1;
}

int64_t LengthOfValue(const MdsEncoding& encoding, absl::string_view value) {
  if (encoding.kind != MdsKind::kArray) return static_cast<int64_t>(value.size());
  const auto array = ReadArray(encoding, value);
  if (!array.ok()) return 0;
  int64_t numbers = 1;
  for (const int64_t size : array->shape) numbers *= size;
  return numbers;
}

std::string TextOf(const LengthCounts& of) {
  return absl::StrFormat("%d in all; shortest %d, mean %.1f, median %d, 90 %% %d, 99 %% %d, longest %d\n", of.sum(),
                         of.least(), static_cast<double>(of.sum()) / static_cast<double>(of.count()), of.Quantile(0.5),
                         of.Quantile(0.9), of.Quantile(0.99), of.most());
}

// Calls work(part, stats) for each part on several threads, and adds up.
template <typename Work>
absl::StatusOr<DataStats> InParallel(int64_t parts, int threads, const std::vector<MdsColumn>& columns,
                                     const TokenCounter& count_tokens, const Work& work) {
  DataStats total{.columns = columns, .count_tokens = count_tokens};
  total.lengths.resize(columns.size());
  total.tokens.resize(columns.size());
  const DataStats empty = total;
  absl::Mutex mutex;
  absl::Status status;
  std::atomic<int64_t> next = 0;
  const auto run = [&] {
    DataStats own = empty;
    absl::Status good;
    for (int64_t part; good.ok() && (part = next++) < parts;) good = work(part, own);
    const absl::MutexLock lock(&mutex);
    status.Update(good);
    total.Add(own);
  };
  std::vector<std::thread> others;
  for (int i = 1; i < threads; ++i) others.emplace_back(run);
  run();
  for (std::thread& other : others) other.join();
  RETURN_IF_ERROR(status);
  return total;
}

}  // namespace

void LengthCounts::Add(int64_t length) {
  ++counts_[BucketOf(length)];
  least_ = std::min(least_, length);
  most_ = std::max(most_, length);
  sum_ += length;
  ++count_;
}

void LengthCounts::Add(const LengthCounts& other) {
  for (size_t i = 0; i < counts_.size(); ++i) counts_[i] += other.counts_[i];
  least_ = std::min(least_, other.least_);
  most_ = std::max(most_, other.most_);
  sum_ += other.sum_;
  count_ += other.count_;
}

int64_t LengthCounts::Quantile(double share) const {
  int64_t seen = 0;
  for (size_t i = 0; i < counts_.size(); ++i) {
    seen += counts_[i];
    if (seen > 0 && static_cast<double>(seen) >= share * static_cast<double>(count_)) return std::min(EndOf(i), most_);
  }
  return most_;
}

absl::Status DataStats::Add(absl::Span<const absl::string_view> values) {
  std::string whole;
  for (size_t i = 0; i < values.size(); ++i) {
    lengths[i].Add(LengthOfValue(columns[i].encoding, values[i]));
    absl::StrAppend(&whole, values[i].size(), ":", values[i]);
    if (count_tokens == nullptr || columns[i].encoding.kind != MdsKind::kText) continue;
    const absl::StatusOr<int64_t> count = count_tokens(values[i]);
    if (!count.ok()) return Annotate(count.status(), columns[i].name);
    tokens[i].Add(*count);
  }
  distinct.insert(Xxh3(whole));
  ++samples;
  return absl::OkStatus();
}

void DataStats::Add(const DataStats& other) {
  for (size_t i = 0; i < lengths.size(); ++i) {
    lengths[i].Add(other.lengths[i]);
    tokens[i].Add(other.tokens[i]);
  }
  distinct.insert(other.distinct.begin(), other.distinct.end());
  samples += other.samples;
}

std::string DataStats::Text() const {
  std::string text =
      absl::StrCat("samples:     ", samples, "\nduplicates:  ", samples - static_cast<int64_t>(distinct.size()), "\n");
  for (size_t i = 0; i < columns.size() && samples > 0; ++i) {
    const std::string column = absl::StrCat(columns[i].name, " (", columns[i].encoding.name, "): ");
    const bool array = columns[i].encoding.kind == MdsKind::kArray;
    absl::StrAppend(&text, column, array ? "numbers " : "bytes ", TextOf(lengths[i]));
    if (tokens[i].count() > 0) absl::StrAppend(&text, column, "tokens ", TextOf(tokens[i]));
  }
  return text;
}

absl::StatusOr<DataStats> StatsOfMds(ObjectStore& store, const MdsIndex& index, int threads,
                                     const TokenCounter& count_tokens) {
  if (index.shards.empty()) return absl::InvalidArgumentError("the data set has no shards");
  const std::vector<MdsColumn>& columns = index.shards[0].columns;
  return InParallel(
      static_cast<int64_t>(index.shards.size()), threads, columns, count_tokens, [&](int64_t number, DataStats& stats) {
        const MdsShardInfo& info = index.shards[static_cast<size_t>(number)];
        if (info.columns.size() != columns.size())
          return absl::InvalidArgumentError(absl::StrCat(info.raw.name, " has other columns than the first shard"));
        const auto unchecked = [](const ShardFile&, absl::string_view) { return absl::OkStatus(); };
        ASSIGN_OR_RETURN(std::string plain, FetchShard(store, "", info, unchecked));
        const auto owner = std::make_shared<const std::string>(std::move(plain));
        ASSIGN_OR_RETURN(OwnedBytes bytes, MdsOfPlain({owner, *owner}, info));
        auto shard = MdsShard::Open(std::move(bytes), info);
        if (!shard.ok()) return Annotate(shard.status(), info.raw.name);
        std::vector<absl::string_view> values(columns.size());
        for (int64_t i = 0; i < (*shard)->size(); ++i) {
          RETURN_IF_ERROR(Annotate((*shard)->Read(i, absl::MakeSpan(values)), info.raw.name));
          RETURN_IF_ERROR(stats.Add(values));
        }
        return absl::OkStatus();
      });
}

absl::StatusOr<DataStats> StatsOfRecords(const RecordSource& records, int threads, const TokenCounter& count_tokens) {
  if (records.size() == 0) return absl::InvalidArgumentError("there is no sample");
  ASSIGN_OR_RETURN(ColumnList list, records.Columns());
  std::sort(list.begin(), list.end());
  std::vector<MdsColumn> columns;
  for (const auto& [name, encoding] : list) {
    ASSIGN_OR_RETURN(MdsEncoding parsed, ParseMdsEncoding(encoding));
    columns.push_back({name, std::move(parsed)});
  }
  constexpr int64_t kPart = 1024;
  return InParallel((records.size() + kPart - 1) / kPart, threads, columns, count_tokens,
                    [&](int64_t part, DataStats& stats) {
                      for (int64_t i = part * kPart; i < std::min(records.size(), (part + 1) * kPart); ++i) {
                        ASSIGN_OR_RETURN(const std::vector<std::string> values, records.Values(i, columns));
                        RETURN_IF_ERROR(stats.Add(std::vector<absl::string_view>(values.begin(), values.end())));
                      }
                      return absl::OkStatus();
                    });
}

}  // namespace composer
