// SPDX-License-Identifier: Apache-2.0
#include "storage/leftovers.h"

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/random.h"
#include "storage/object_store.h"

namespace composer {

std::string NewWriteAttempt() { return RandomHex(8); }

std::string TemporaryName(const std::string& path) {
  return JoinPath(DirName(path), absl::StrCat(kLeftoverPrefix, NewWriteAttempt(), "-", BaseName(path)));
}

absl::Status CheckListedKey(const std::string& key) {
  if (!IsLeftover(key)) return CheckKey(key);
  const std::string folder = DirName(key);
  return folder.empty() ? absl::OkStatus() : CheckKey(folder);
}

}  // namespace composer
