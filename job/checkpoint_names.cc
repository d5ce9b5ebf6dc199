// SPDX-License-Identifier: Apache-2.0
#include "job/checkpoint_names.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/name_template.h"
#include "base/status_macros.h"
#include "checkpoint/format/checkpoint_link.h"
#include "storage/object_store.h"
#include "trainer/resume/saved_names.h"

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

// A part of a path with these differs from checkpoint to checkpoint.
bool ChangesDuringARun(absl::string_view folder) {
  const PlaceholderValues times = PlaceholdersOf(Timestamp());
  return FillTemplate(folder, times) != folder;
}

// Reduces "name-rank{rank}.pt", or a part of it, to "name".
absl::string_view Bare(absl::string_view name) {
  if (const size_t rank = name.find(kRank); rank != absl::string_view::npos) return name.substr(0, rank);
  for (const absl::string_view extension : kExtensions) {
    if (const size_t at = name.rfind(extension); at != absl::string_view::npos) return name.substr(0, at);
  }
  return name;
}

// Composer packs a checkpoint whose name ends in .pt and one of these.
absl::Status CheckNotPacked(absl::string_view save_filename) {
  for (const absl::string_view packed : {"bz2", "gz", "lz4", "lzma", "lzo", "xz", "zst"}) {
    absl::string_view name = save_filename;
    if (!absl::ConsumeSuffix(&name, packed) || !absl::EndsWith(name, ".pt.")) continue;
    name.remove_suffix(1);
    return absl::InvalidArgumentError(
        absl::StrCat("checkpoints are not packed: each is a folder that ranks read pieces of; write \"", name,
                     "\", and pack one with `composer checkpoint export RUN x.pt.gz` (or .pt.lz4, .pt.zst)"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<CheckpointNames> NamesOfSaveFilename(absl::string_view save_filename) {
  RETURN_IF_ERROR(CheckNotPacked(save_filename));
  const bool leaves_it =
      absl::StartsWith(save_filename, "/") || absl::StrContains(absl::StrCat("/", save_filename, "/"), "/../");
  if (leaves_it) return absl::InvalidArgumentError("must stay below save_folder");
  const auto [folder, name] = SplitFolder(save_filename);
  const PlaceholderValues values = LinkPlaceholders("run", 1, Timestamp());
  RETURN_IF_ERROR(CheckPlaceholders(save_filename, values));
  CheckpointNames names;
  if (ChangesDuringARun(folder)) {
    names.link = std::string(save_filename);
  } else {
    names.folder = std::string(folder);
    if (name != kStep) names.link = std::string(name);
  }
  if (names.link.empty() || MayBeLink(FillTemplate(names.link, values))) return names;
  return absl::InvalidArgumentError(absl::StrCat(
      "\"", names.link, "\" cannot be the name of a file that leads to a checkpoint: letters, digits, '.', ",
      "'-' and '_', and neither a checkpoint's own folder, ", kStep, ", nor `lease`"));
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
