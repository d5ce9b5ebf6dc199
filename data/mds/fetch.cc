// SPDX-License-Identifier: Apache-2.0
#include "data/mds/fetch.h"

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "data/cache/whole_object.h"

namespace composer {
namespace {

absl::StatusOr<std::string> ReadWhole(ObjectStore& store, const std::string& key, int64_t size) {
  ASSIGN_OR_RETURN(const int64_t found, store.Size(key));
  if (found != size) return absl::DataLossError(absl::StrCat("it has ", found, " bytes, and the index says ", size));
  return ReadObjectRange(store, key, 0, size);
}

}  // namespace

std::string MdsKey(const std::string& folder, const std::string& name) {
  return folder.empty() ? name : absl::StrCat(folder, "/", name);
}

absl::StatusOr<MdsIndex> FetchMdsIndex(ObjectStore& store, const std::string& folder) {
  const std::string key = MdsKey(folder, "index.json");
  ASSIGN_OR_RETURN(const std::string text, GetObject(store, key, kMaxIndexBytes));
  auto index = ParseMdsIndex(text);
  if (!index.ok()) return Annotate(index.status(), store.Location(key));
  return index;
}

absl::StatusOr<std::string> FetchShard(ObjectStore& store, const std::string& folder, const MdsShardInfo& info,
                                       ShardFileCheck check) {
  const auto fetch = [&](const ShardPart& part, const std::string& key) -> absl::StatusOr<std::string> {
    ASSIGN_OR_RETURN(std::string stored, ReadWhole(store, key, part.stored().bytes));
    RETURN_IF_ERROR(check(part.stored(), stored));
    if (!part.zip) return stored;
    ASSIGN_OR_RETURN(std::string raw, Decompress(info.compression->codec, stored, part.raw.bytes));
    RETURN_IF_ERROR(check(part.raw, raw));
    return raw;
  };
  std::string plain;
  for (const ShardPart& part : PartsOf(info)) {
    const std::string key = MdsKey(folder, part.stored().name);
    auto raw = fetch(part, key);
    if (!raw.ok()) return Annotate(raw.status(), store.Location(key));
    plain += *raw;
  }
  return plain;
}

}  // namespace composer
