// SPDX-License-Identifier: Apache-2.0
#include "data/mds/inspect.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <thread>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "absl/synchronization/mutex.h"
#include "base/format/little_endian.h"
#include "base/status_macros.h"
#include "data/mds/fetch.h"
#include "data/mds/reader.h"
#include "data/mds/rows.h"

namespace composer {
namespace {

// IEEE 754 binary16: 1 sign, 5 exponent and 10 fraction bits.
double HalfOf(uint16_t bits) {
  const int exponent = (bits >> 10) & 31, fraction = bits & 1023;
  const double sign = (bits >> 15) != 0 ? -1 : 1;
  if (exponent == 31) return fraction == 0 ? sign * HUGE_VAL : std::nan("");
  return sign * (exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(fraction + 1024, exponent - 25));
}

std::string NumberText(MdsNumber number, absl::string_view bytes) {
  switch (number) {
    case MdsNumber::kUint8:
      return absl::StrCat(NumberAt<uint8_t>(bytes, 0));
    case MdsNumber::kInt8:
      return absl::StrCat(NumberAt<int8_t>(bytes, 0));
    case MdsNumber::kUint16:
      return absl::StrCat(NumberAt<uint16_t>(bytes, 0));
    case MdsNumber::kInt16:
      return absl::StrCat(NumberAt<int16_t>(bytes, 0));
    case MdsNumber::kFloat16:
      return absl::StrCat(HalfOf(NumberAt<uint16_t>(bytes, 0)));
    case MdsNumber::kUint32:
      return absl::StrCat(NumberAt<uint32_t>(bytes, 0));
    case MdsNumber::kInt32:
      return absl::StrCat(NumberAt<int32_t>(bytes, 0));
    case MdsNumber::kFloat32:
      return absl::StrCat(NumberAt<float>(bytes, 0));
    case MdsNumber::kUint64:
      return absl::StrCat(NumberAt<uint64_t>(bytes, 0));
    case MdsNumber::kInt64:
      return absl::StrCat(NumberAt<int64_t>(bytes, 0));
    case MdsNumber::kFloat64:
      break;
  }
  return absl::StrCat(NumberAt<double>(bytes, 0));
}

std::string Shortened(absl::string_view text, size_t most) {
  return absl::StrCat("\"", absl::Utf8SafeCEscape(text.substr(0, most)), text.size() > most ? "\"..." : "\"");
}

// What is wrong with a shard, if anything.
absl::Status VerifyShard(ObjectStore& store, const std::string& folder, const MdsShardInfo& info) {
  const auto check = [&](const ShardFile& file, absl::string_view bytes) {
    RETURN_IF_ERROR(CheckShardFile(file, bytes, ""));
    for (const auto& [algorithm, digest] : file.hashes) RETURN_IF_ERROR(CheckShardFile(file, bytes, algorithm));
    return absl::OkStatus();
  };
  ASSIGN_OR_RETURN(const std::string plain, FetchShard(store, folder, info, check));
  ASSIGN_OR_RETURN(OwnedBytes bytes, MdsOfPlain({nullptr, plain}, info));
  ASSIGN_OR_RETURN(const std::shared_ptr<const MdsShard> shard, MdsShard::Open(std::move(bytes), info));
  std::vector<absl::string_view> columns(info.columns.size());
  for (int64_t sample = 0; sample < shard->size(); ++sample) {
    absl::Status good = shard->Read(sample, absl::MakeSpan(columns));
    for (size_t i = 0; i < columns.size() && good.ok(); ++i)
      good = Annotate(CheckValue(info.columns[i].encoding, columns[i]), absl::StrCat("column ", info.columns[i].name));
    if (!good.ok()) return Annotate(good, absl::StrCat("sample ", sample));
  }
  return absl::OkStatus();
}

}  // namespace

std::string DescribeMds(const MdsIndex& index) {
  int64_t samples = 0, raw = 0, stored = 0, largest = 0;
  for (const MdsShardInfo& info : index.shards) {
    samples += info.samples;
    raw += PlainBytes(info);
    for (const ShardPart& part : PartsOf(info)) stored += part.stored().bytes;
    largest = std::max(largest, PlainBytes(info));
  }
  std::string text = absl::StrCat("shards:      ", index.shards.size(), ", the largest of ", largest,
                                  " bytes\nsamples:     ", samples, "\nbytes:       ", raw, "\n");
  if (index.shards.empty()) return text;
  const MdsShardInfo& first = index.shards[0];
  if (first.zip) absl::StrAppend(&text, "compression: ", first.compression_text, ", ", stored, " bytes stored\n");
  absl::StrAppend(&text, "hashes:      ", first.hashes.empty() ? "none" : absl::StrJoin(first.hashes, ", "), "\n");
  for (const MdsColumn& column : first.columns)
    absl::StrAppend(&text, "column:      ", column.name, " (", column.encoding.name, ")\n");
  return text;
}

std::string DescribeValue(const MdsEncoding& encoding, absl::string_view value, size_t most) {
  if (const absl::Status good = CheckValue(encoding, value); !good.ok()) return std::string(good.message());
  switch (encoding.kind) {
    case MdsKind::kNumber:
      return NumberText(*encoding.number, value);
    case MdsKind::kNumberText:
      return std::string(value.substr(0, most));
    case MdsKind::kText:
    case MdsKind::kJson:
      return Shortened(value, most);
    case MdsKind::kArray: {
      const MdsArray array = ReadArray(encoding, value).value();
      return absl::StrCat(NameOf(array.number), "[", absl::StrJoin(array.shape, ", "), "]");
    }
    case MdsKind::kPixels: {
      const MdsPixels pixels = ReadPixels(value).value();
      return absl::StrCat(pixels.width, "x", pixels.height, " ", absl::CHexEscape(pixels.mode));
    }
    case MdsKind::kPictureArray:
    case MdsKind::kList:
      return absl::StrCat(ReadElements(encoding, value).value().size(), " elements");
    case MdsKind::kBytes:
    case MdsKind::kPicture:
      break;
  }
  return absl::StrCat(value.size(), " bytes");
}

MdsVerification VerifyMds(ObjectStore& store, const std::string& folder, const MdsIndex& index, int threads,
                          const std::function<void(size_t)>& progress) {
  std::vector<absl::Status> found(index.shards.size());
  std::atomic<size_t> next = 0;
  absl::Mutex mutex;
  size_t done = 0;
  const auto work = [&] {
    for (size_t i = next++; i < found.size(); i = next++) {
      found[i] = VerifyShard(store, folder, index.shards[i]);
      absl::MutexLock lock(&mutex);
      ++done;
      if (progress) progress(done);
    }
  };
  std::vector<std::thread> workers;
  for (int i = 1; i < threads; ++i) workers.emplace_back(work);
  work();
  for (std::thread& worker : workers) worker.join();
  MdsVerification result;
  for (size_t i = 0; i < found.size(); ++i) {
    const MdsShardInfo& info = index.shards[i];
    for (const ShardPart& part : PartsOf(info)) result.bytes += part.stored().bytes;
    if (found[i].ok()) {
      result.samples += info.samples;
    } else {
      result.problems.push_back({info.stored().name, std::string(found[i].message())});
    }
  }
  return result;
}

absl::StatusOr<int64_t> MergeMds(ObjectStore& store, const std::string& folder) {
  const std::string key = MdsKey(folder, "index.json");
  ASSIGN_OR_RETURN(const std::vector<std::string> keys, store.List(folder));
  std::vector<std::pair<std::string, MdsIndex>> parts;
  for (const std::string& listed : keys) {
    absl::string_view name = listed;
    if (!folder.empty()) name = absl::StripPrefix(name, absl::StrCat(folder, "/"));
    const std::vector<std::string> names = absl::StrSplit(name, '/');
    if (names.size() != 2 || names[1] != "index.json") continue;
    ASSIGN_OR_RETURN(MdsIndex index, FetchMdsIndex(store, MdsKey(folder, names[0])));
    parts.emplace_back(names[0], std::move(index));
  }
  if (parts.empty())
    return absl::NotFoundError(absl::StrCat("no folder directly below ", store.Location(key), " has an index.json"));
  std::sort(parts.begin(), parts.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  ASSIGN_OR_RETURN(const MdsIndex merged, MergeMdsIndices(parts));
  RETURN_IF_ERROR(store.PutIfAbsent(key, {MdsIndexText(merged)}));
  return static_cast<int64_t>(merged.shards.size());
}

}  // namespace composer
