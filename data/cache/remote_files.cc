// SPDX-License-Identifier: Apache-2.0
#include "data/cache/remote_files.h"

#include <fnmatch.h>

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"

namespace composer {
namespace {

using StoresByFolder = std::map<std::string, std::shared_ptr<ObjectStore>>;  // by folder

bool HasEnding(absl::string_view name, const std::vector<std::string>& endings) {
  return std::any_of(endings.begin(), endings.end(),
                     [name](const std::string& ending) { return absl::EndsWith(name, ending); });
}

absl::Status AddObjectsOf(const std::string& url, const std::vector<std::string>& endings,
                          const StoreOpener& open_store, StoresByFolder& stores, std::vector<RemoteFile>& found) {
  const bool is_folder = !HasEnding(url, endings);
  const size_t slash = url.rfind('/');
  const std::string folder = is_folder || slash == std::string::npos ? url : url.substr(0, slash);
  const std::string name = is_folder ? "" : url.substr(slash + 1);
  std::shared_ptr<ObjectStore>& store = stores[folder];
  if (store == nullptr) {
    ASSIGN_OR_RETURN(store, OpenPlace(open_store, folder));
  }
  if (!is_folder && name.find_first_of("*?[") == std::string::npos) {
    found.push_back({store, name});
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const std::vector<std::string> keys, store->List(""));
  const size_t before = found.size();
  for (const std::string& key : keys) {
    if (IsLeftover(key)) continue;
    if (is_folder ? !absl::StrContains(key, '/') && HasEnding(key, endings)
                  : fnmatch(name.c_str(), key.c_str(), FNM_PATHNAME) == 0)
      found.push_back({store, key});
  }
  if (found.size() > before) return absl::OkStatus();
  return absl::NotFoundError(is_folder ? absl::StrCat(url, ": there is no file of the ending ",
                                                      absl::StrJoin(endings, " or "), " in this folder")
                                       : absl::StrCat(url, ": there is no such file"));
}

}  // namespace

absl::StatusOr<std::shared_ptr<ShardCache>> OpenFetchCache(const FetchOptions& options) {
  ShardCacheOptions cache{.folder = options.local, .limit = options.cache_limit};
  cache.retry.max_tries = 1 + options.download_retry;
  cache.fetch_timeout = options.download_timeout;
  return ShardCache::Open(std::move(cache));
}

absl::StatusOr<std::vector<RemoteFile>> FindRemoteFiles(const std::vector<std::string>& urls,
                                                        const std::vector<std::string>& endings,
                                                        const StoreOpener& open_store) {
  StoresByFolder stores;
  std::vector<RemoteFile> found;
  for (const std::string& url : urls) RETURN_IF_ERROR(AddObjectsOf(url, endings, open_store, stores, found));
  return found;
}

}  // namespace composer
