// SPDX-License-Identifier: Apache-2.0
#include "data/image/image_files.h"

#include <algorithm>
#include <filesystem>
#include <tuple>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/file.h"
#include "base/nearest_name.h"
#include "base/status_macros.h"

namespace composer {
namespace {

constexpr int kMaxDepth = 32;  // links may form a ring

bool IsImage(const std::string& name) {
  const std::string lower = absl::AsciiStrToLower(name);
  return absl::EndsWith(lower, ".jpg") || absl::EndsWith(lower, ".jpeg") || absl::EndsWith(lower, ".png");
}

// Calls fn(name, is_folder) for what is in a folder.
template <typename Fn>
absl::Status ForEachIn(const std::string& folder, Fn fn) {
  std::error_code error;
  std::filesystem::directory_iterator entry(folder, error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    std::error_code unknown;  // a link to nothing is not a folder
    RETURN_IF_ERROR(fn(entry->path().filename().string(), entry->is_directory(unknown)));
  }
  return error ? ErrnoStatus(error.value(), "cannot be listed", folder) : absl::OkStatus();
}

absl::Status AddImages(const std::string& folder, int64_t target, int depth, std::vector<ImageFile>& files) {
  if (depth > kMaxDepth) return absl::InvalidArgumentError(absl::StrCat(folder, ": more than 32 folders deep"));
  return ForEachIn(folder, [&](const std::string& name, bool is_folder) -> absl::Status {
    if (is_folder) return AddImages(JoinPath(folder, name), target, depth + 1, files);
    if (IsImage(name)) files.push_back({folder, name, target});
    return absl::OkStatus();
  });
}

absl::StatusOr<std::vector<std::string>> FoldersIn(const std::string& path) {
  std::vector<std::string> folders;
  RETURN_IF_ERROR(ForEachIn(path, [&](const std::string& name, bool is_folder) {
    if (is_folder) folders.push_back(name);
    return absl::OkStatus();
  }));
  if (folders.empty())
    return absl::InvalidArgumentError(absl::StrCat(path, ": there is no folder in it; it needs one for each class"));
  std::sort(folders.begin(), folders.end());
  return folders;
}

absl::StatusOr<std::vector<std::string>> ClassesIn(const std::string& file) {
  ASSIGN_OR_RETURN(const std::string text, ReadFile(file));
  std::vector<std::string> classes;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    const absl::string_view name = absl::StripAsciiWhitespace(line);
    if (!name.empty()) classes.emplace_back(name);
  }
  return classes;
}

}  // namespace

absl::StatusOr<std::vector<ImageFile>> ListImageFolder(const std::string& root, const std::string& classes_file) {
  ASSIGN_OR_RETURN(const std::vector<std::string> folders, FoldersIn(root));
  std::vector<std::string> classes = folders;
  if (!classes_file.empty()) {
    ASSIGN_OR_RETURN(classes, ClassesIn(classes_file));
  }
  std::vector<ImageFile> files;
  for (const std::string& folder : folders) {
    const auto found = std::find(classes.begin(), classes.end(), folder);
    const std::string path = JoinPath(root, folder);
    if (found == classes.end())
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": ", classes_file, " has no class `", folder, "`", DidYouMean(folder, classes)));
    const auto before = static_cast<std::ptrdiff_t>(files.size());
    RETURN_IF_ERROR(AddImages(path, found - classes.begin(), 0, files));
    if (files.begin() + before == files.end())
      return absl::InvalidArgumentError(absl::StrCat(path, ": there is no image in it; .jpg, .jpeg and .png are read"));
    std::sort(files.begin() + before, files.end(), [](const ImageFile& a, const ImageFile& b) {
      return std::tie(a.folder, a.name) < std::tie(b.folder, b.name);
    });
  }
  return files;
}

}  // namespace composer
