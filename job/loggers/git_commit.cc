// SPDX-License-Identifier: Apache-2.0
#include "job/loggers/git_commit.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/file.h"

namespace composer {
namespace {

constexpr int64_t kMaxHead = 4096, kMaxPackedRefs = 64 << 20;

std::string TextOfFile(const std::string& path, int64_t most) {
  const auto text = ReadFile(path, most);
  return text.ok() ? std::string(absl::StripAsciiWhitespace(*text)) : "";
}

// A path in one of git's files: relative to the folder of that file, or absolute.
std::string PathFrom(const std::string& folder, const std::string& path) {
  return absl::StartsWith(path, "/") ? path : JoinPath(folder, path);
}

bool IsCommit(absl::string_view text) {
  return (text.size() == 40 || text.size() == 64) &&
         std::all_of(text.begin(), text.end(), [](char c) { return absl::ascii_isxdigit(c); });
}

std::string CommitOfRef(const std::string& git, const std::string& ref) {
  const std::string loose = TextOfFile(JoinPath(git, ref), kMaxHead);
  if (IsCommit(loose)) return loose;
  const std::string packed = TextOfFile(JoinPath(git, "packed-refs"), kMaxPackedRefs);
  for (const absl::string_view line : absl::StrSplit(packed, '\n')) {
    absl::string_view commit = line;
    if (absl::ConsumeSuffix(&commit, " " + ref) && IsCommit(commit)) return std::string(commit);
  }
  return "";
}

}  // namespace

std::string GitCommitOf(const std::string& folder) {
  for (std::string at = AbsolutePath(folder);; at = DirName(at)) {
    std::string git = JoinPath(at, ".git");
    if (!PathExists(git) && at != "/" && !at.empty() && at != ".") continue;
    // A worktree's .git is a file that names its folder, whose refs are those of the folder in `commondir`.
    std::string place = TextOfFile(git, kMaxHead);
    if (absl::StartsWith(place, "gitdir: ")) git = PathFrom(at, place.substr(8));
    const std::string head = TextOfFile(JoinPath(git, "HEAD"), kMaxHead);
    if (!absl::StartsWith(head, "ref: ")) return IsCommit(head) ? head : "";
    const std::string common = TextOfFile(JoinPath(git, "commondir"), kMaxHead);
    const std::string ref = head.substr(5);
    return CommitOfRef(common.empty() ? git : PathFrom(git, common), ref);
  }
}

}  // namespace composer
