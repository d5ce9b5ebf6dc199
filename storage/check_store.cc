// SPDX-License-Identifier: Apache-2.0
#include "storage/check_store.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/random.h"
#include "base/status_macros.h"

namespace composer {
namespace {

constexpr char kContent[] = "0123456789";

absl::Status Expect(bool holds, const std::string& problem) {
  return holds ? absl::OkStatus() : absl::InternalError(problem);
}

absl::Status ReadBack(ObjectStore& store, const std::string& key, const std::string& expected) {
  ASSIGN_OR_RETURN(const std::string whole, GetObject(store, key, 1 << 10));
  RETURN_IF_ERROR(Expect(whole == expected, store.Location(key) + " has other bytes than were written"));
  std::string part(4, ' ');
  RETURN_IF_ERROR(store.Read(key, 3, absl::MakeSpan(part)));
  return Expect(part == expected.substr(3, 4), store.Location(key) + ": a part of it has other bytes");
}

absl::Status CreateOnce(ObjectStore& store, const std::string& key) {
  const absl::Status status = store.PutIfAbsent(key, {"other"});
  if (absl::IsAlreadyExists(status)) return ReadBack(store, key, kContent);
  return status.ok() ? absl::InternalError(store.Location(key) + " was replaced: two runs could save to one folder")
                     : status;
}

absl::Status FindInList(ObjectStore& store, const std::string& folder, const std::string& key) {
  ASSIGN_OR_RETURN(const std::vector<std::string> keys, store.List(folder));
  return Expect(std::find(keys.begin(), keys.end(), key) != keys.end(), store.Location(key) + " is not listed");
}

absl::Status Remove(ObjectStore& store, const std::string& folder, const std::string& key) {
  RETURN_IF_ERROR(store.Delete(key));
  RETURN_IF_ERROR(store.DeleteTree(folder));
  const absl::Status gone = store.Size(key).status();
  return Expect(absl::IsNotFound(gone), store.Location(key) + " is still there");
}

}  // namespace

std::vector<StoreFinding> CheckStore(ObjectStore& store, const std::string& folder) {
  const std::string key = absl::StrCat(folder, "/object");
  std::vector<StoreFinding> findings = {{"list what is there", store.List(folder).status()},
                                        {"create an object", store.PutIfAbsent(key, {kContent})}};
  if (!findings.back().status.ok()) return findings;
  findings.push_back({"read it, whole and in part", ReadBack(store, key, kContent)});
  findings.push_back({"refuse to create it twice", CreateOnce(store, key)});
  findings.push_back({"find it in the list", FindInList(store, folder, key)});
  findings.push_back({"replace it", store.Put(key, {"9876543210"})});
  if (findings.back().status.ok()) findings.back().status = ReadBack(store, key, "9876543210");
  findings.push_back({"delete it", Remove(store, folder, key)});
  return findings;
}

std::string CheckFolderName() { return absl::StrCat("composer-check-", RandomHex(8)); }

}  // namespace composer
