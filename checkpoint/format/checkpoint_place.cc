// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/format/checkpoint_place.h"

#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/status_macros.h"
#include "checkpoint/format/checkpoint_link.h"
#include "checkpoint/format/checkpoint_name.h"
#include "storage/local_store.h"

namespace composer {

namespace {

// A file beside the checkpoints that holds the newest one's name (`latest`) stands for its folder, as Composer's link
// does for the newest one; a link (checkpoint_link.h) for the one that it leads to. What `latest` says is not believed:
// a run that is saving may just have changed it.
absl::StatusOr<std::string> FolderOfLatest(const std::string& file) {
  const absl::StatusOr<std::string> content = ReadFile(file, kMaxLinkBytes);
  if (content.ok() && FollowLink(file, *content).has_value()) return *FollowLink(file, *content);
  if (content.ok() && CheckpointName::Parse(absl::StripAsciiWhitespace(*content)).has_value()) return DirName(file);
  return absl::InvalidArgumentError(
      absl::StrCat(file,
                   " is a file, not a checkpoint; `composer checkpoint import` makes one of safetensors and torch.save "
                   "weights"));
}

// Returns the checkpoint to which the object at this URL leads; "" if it is not a link, or there is none.
std::string PlaceOfLink(const std::string& url, const StoreOpener& open) {
  if (!IsRemotePlace(DirName(url))) return "";  // the URL of a whole bucket
  const absl::StatusOr<std::shared_ptr<ObjectStore>> store = OpenPlace(open, DirName(url));
  if (!store.ok()) return "";
  const absl::StatusOr<std::string> text = GetObject(**store, BaseName(url), kMaxLinkBytes);
  return text.ok() ? FollowLink(url, *text).value_or("") : "";
}

// Resolves a URL, whose last part distinguishes a checkpoint from a folder.
absl::StatusOr<CheckpointPlace> FindRemote(std::string url, const StoreOpener& open) {
  while (url.back() == '/') url.pop_back();
  if (BaseName(url) == "manifest.json") url = DirName(url);
  if (const std::string name = BaseName(url); CheckpointName::Parse(name).has_value()) {
    ASSIGN_OR_RETURN(std::shared_ptr<ObjectStore> store, OpenPlace(open, DirName(url)));
    return CheckpointPlace{std::move(store), name};
  }
  if (BaseName(url) == kLatestKey) url = DirName(url);
  if (const std::string place = PlaceOfLink(url, open); !place.empty()) {
    ASSIGN_OR_RETURN(std::shared_ptr<ObjectStore> store, OpenPlace(open, DirName(place)));
    return CheckpointPlace{std::move(store), BaseName(place)};
  }
  ASSIGN_OR_RETURN(std::shared_ptr<ObjectStore> of_run, OpenPlace(open, url + "/checkpoints"));
  ASSIGN_OR_RETURN(const std::vector<std::string> keys, of_run->List(""));
  if (!keys.empty()) return CheckpointPlace{std::move(of_run), ""};
  ASSIGN_OR_RETURN(std::shared_ptr<ObjectStore> folder, OpenPlace(open, url));
  return CheckpointPlace{std::move(folder), ""};
}

}  // namespace

absl::StatusOr<CheckpointPlace> FindCheckpointPlace(const std::string& argument, const StoreOpener& open) {
  if (IsRemotePlace(argument)) return FindRemote(argument, open);
  std::string path = AbsolutePath(argument);
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  if (BaseName(path) == "manifest.json") path = DirName(path);
  if (PathExists(path) && !IsDirectory(path)) {
    ASSIGN_OR_RETURN(path, FolderOfLatest(path));
  }
  if (!IsDirectory(path)) return absl::NotFoundError(absl::StrCat("there is no folder ", path));
  if (PathExists(JoinPath(path, "manifest.json"))) {
    const std::string name = BaseName(path);
    RETURN_IF_ERROR(CheckKey(name));
    return CheckpointPlace{std::make_shared<LocalStore>(DirName(path)), name};
  }
  const std::string of_run = JoinPath(path, "checkpoints");
  return CheckpointPlace{std::make_shared<LocalStore>(IsDirectory(of_run) ? of_run : path), ""};
}

}  // namespace composer
