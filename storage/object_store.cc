// SPDX-License-Identifier: Apache-2.0
#include "storage/object_store.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/file.h"
#include "base/status_macros.h"
#include "storage/local_store.h"

namespace composer {
namespace {

constexpr size_t kMaxKeyBytes = 1024;

bool IsKeyPart(absl::string_view part) {
  if (part.empty() || part.front() == '.') return false;
  return std::all_of(part.begin(), part.end(),
                     [](char c) { return absl::ascii_isalnum(c) || c == '.' || c == '_' || c == '-'; });
}

}  // namespace

std::string JoinPieces(Pieces pieces) {
  std::string bytes;
  for (const absl::string_view piece : pieces) bytes.append(piece.begin(), piece.end());
  return bytes;
}

bool IsRemotePlace(absl::string_view place) {
  return absl::StartsWith(place, "dbfs:/") || (absl::StrContains(place, "://") && !absl::StartsWith(place, "file://"));
}

absl::StatusOr<std::shared_ptr<ObjectStore>> OpenPlace(const StoreOpener& open, const std::string& place) {
  if (open) return open(place);
  if (IsRemotePlace(place)) {
    return absl::InvalidArgumentError(
        absl::StrCat("`", place, "`: this program has no object storage; give it OpenStore of storage/open_store.h"));
  }
  absl::string_view path = place;
  absl::ConsumePrefix(&path, "file://");
  return std::make_shared<LocalStore>(AbsolutePath(std::string(path)));
}

absl::Status CheckKey(absl::string_view key) {
  bool valid = key.size() <= kMaxKeyBytes;
  for (const absl::string_view part : absl::StrSplit(key, '/')) valid = valid && IsKeyPart(part);
  if (valid) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("not a storage key: \"", absl::CHexEscape(key.substr(0, 100)), "\""));
}

bool IsLeftover(absl::string_view listed_key) {
  const absl::string_view last = listed_key.substr(listed_key.rfind('/') + 1);
  return last == "." || absl::StartsWith(last, kLeftoverPrefix);
}

absl::StatusOr<std::string> GetObject(ObjectStore& store, const std::string& key, int64_t max_bytes) {
  ASSIGN_OR_RETURN(const int64_t size, store.Size(key));
  if (size > max_bytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat(store.Location(key), " has ", size, " bytes, more than the ", max_bytes, " allowed here"));
  }
  std::string bytes(static_cast<size_t>(size), '\0');
  RETURN_IF_ERROR(store.Read(key, 0, absl::MakeSpan(bytes)));
  return bytes;
}

}  // namespace composer
