// SPDX-License-Identifier: Apache-2.0
#include "job/checkpoint_names.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "checkpoint/format/checkpoint_name.h"
#include "storage/object_store.h"

namespace composer {
namespace {

constexpr absl::string_view kStep = "ep{epoch}-ba{batch}";
constexpr absl::string_view kRank = "-rank{rank}";
constexpr absl::string_view kExtensions[] = {".pt", ".symlink"};

std::pair<absl::string_view, absl::string_view> SplitFolder(absl::string_view path) {
  const size_t slash = path.rfind('/');
  if (slash == absl::string_view::npos) return {"", path};
  return {path.substr(0, slash), path.substr(slash + 1)};
}

// Reduces "name-rank{rank}.pt", or a part of it, to "name".
absl::string_view Bare(absl::string_view name) {
  if (const size_t rank = name.find(kRank); rank != absl::string_view::npos) return name.substr(0, rank);
  for (const absl::string_view extension : kExtensions) {
    if (const size_t at = name.rfind(extension); at != absl::string_view::npos) return name.substr(0, at);
  }
  return name;
}

}  // namespace

absl::StatusOr<std::string> FolderOfSaveFilename(absl::string_view save_filename) {
  const auto [folder, name] = SplitFolder(save_filename);
  const bool leaves_it =
      absl::StartsWith(save_filename, "/") || absl::StrContains(absl::StrCat("/", folder, "/"), "/../");
  if (leaves_it) return absl::InvalidArgumentError("must stay below save_folder");
  for (const absl::string_view time : {"{epoch}", "{batch}", "{rank}"}) {
    if (absl::StrContains(folder, time))
      return absl::InvalidArgumentError(absl::StrCat("all checkpoints of a run are in one folder; ", time,
                                                     " can only be in the last part of the path"));
  }
  if (Bare(name) != kStep) {
    return absl::InvalidArgumentError(
        absl::StrCat("\"", name, "\" cannot name a checkpoint: it is a folder called ", kStep,
                     " (with or without -rank{rank} and .pt, which say nothing), and is found again by that name"));
  }
  return std::string(folder);
}

absl::StatusOr<std::string> LatestKeyOf(absl::string_view save_latest_filename, absl::string_view folder) {
  if (save_latest_filename.empty() || save_latest_filename == "none") return "";
  const auto [in, name] = SplitFolder(save_latest_filename);
  if (in != folder && !in.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("is beside the checkpoints, in the folder of save_filename (\"",
                                                   folder, "\"), not in \"", in, "\""));
  }
  const std::string key(Bare(name));
  if (!CheckKey(key).ok() || CheckpointName::Parse(key).has_value()) {
    return absl::InvalidArgumentError(absl::StrCat("\"", name,
                                                   "\" cannot be the name of the file that holds the newest "
                                                   "checkpoint's name: letters, digits, '.', '-' and '_'"));
  }
  return key;
}

}  // namespace composer
