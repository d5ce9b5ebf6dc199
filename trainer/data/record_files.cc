// SPDX-License-Identifier: Apache-2.0
#include "trainer/data/record_files.h"

#include <glob.h>

#include <algorithm>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/file.h"
#include "base/status_macros.h"
#include "storage/mapped_file.h"
#include "trainer/data/gzip_file.h"

namespace composer {
namespace {

constexpr int64_t kMaxUnpacked = int64_t{16} << 30;
constexpr size_t kMaxRecord = size_t{256} << 20;

// Returns where the record that begins at `begin` ends: at its line end, or the end of the text; npos for an open
// quote.
size_t EndOfRecord(absl::string_view text, size_t begin, RecordKind kind) {
  if (kind == RecordKind::kLines) return std::min(text.find('\n', begin), text.size());
  bool quoted = false;
  for (size_t i = begin; i < text.size(); ++i) {
    if (text[i] == '"') quoted = !quoted;
    if (text[i] == '\n' && !quoted) return i;
  }
  return quoted ? absl::string_view::npos : text.size();
}

absl::string_view WithoutLineEnd(absl::string_view record) {
  absl::ConsumeSuffix(&record, "\r");
  return record;
}

absl::Status AddFolder(const std::string& folder, std::vector<std::string>& files) {
  ASSIGN_OR_RETURN(const std::vector<std::string> names, ListDir(folder));
  for (const std::string& name : names) {
    const std::string path = JoinPath(folder, name);
    if (!absl::StartsWith(name, ".") && !IsDirectory(path)) files.push_back(path);
  }
  return absl::OkStatus();
}

void AddMatches(const std::string& pattern, std::vector<std::string>& files) {
  glob_t found = {};
  const absl::Cleanup free = [&] { globfree(&found); };
  if (glob(pattern.c_str(), 0, nullptr, &found) != 0) return;
  for (size_t i = 0; i < found.gl_pathc; ++i) {
    if (!IsDirectory(found.gl_pathv[i])) files.emplace_back(found.gl_pathv[i]);
  }
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ExpandPaths(const std::vector<std::string>& paths) {
  std::vector<std::string> files;
  for (const std::string& path : paths) {
    const size_t before = files.size();
    if (IsDirectory(path)) {
      RETURN_IF_ERROR(AddFolder(path, files));
    } else if (PathExists(path)) {
      files.push_back(path);
    } else {
      AddMatches(path, files);
    }
    if (files.size() == before) return absl::NotFoundError(absl::StrCat(path, ": there is no such file"));
  }
  return files;
}

absl::Status RecordFiles::Index(Part& part, RecordKind kind, bool header) {
  const absl::string_view text = part.bytes;
  for (size_t begin = 0, end; begin < text.size(); begin = end + 1) {
    end = EndOfRecord(text, begin, kind);
    if (end == absl::string_view::npos || end - begin > kMaxRecord) {
      return absl::InvalidArgumentError(
          absl::StrCat(part.path, ", at byte ", begin,
                       end == absl::string_view::npos ? ": a quote is not closed" : ": a record is above 256 MiB"));
    }
    const absl::string_view record = WithoutLineEnd(text.substr(begin, end - begin));
    if (record.empty()) continue;
    if (!std::exchange(header, false)) {
      records_.push_back(begin);
    } else if (header_.empty()) {
      header_ = record;
    } else if (header_ != record) {
      return absl::InvalidArgumentError(absl::StrCat(part.path, ": its first line `", record.substr(0, 200),
                                                     "` differs from that of ", parts_.front().path, ", `",
                                                     header_.substr(0, 200), "`"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<RecordFiles> RecordFiles::Open(const std::vector<std::string>& paths, RecordKind kind, bool header) {
  ASSIGN_OR_RETURN(const std::vector<std::string> files, ExpandPaths(paths));
  RecordFiles records;
  records.kind_ = kind;
  for (const std::string& path : files) {
    Part part{.path = path, .first = records.records_.size()};
    if (absl::EndsWith(path, ".gz")) {
      ASSIGN_OR_RETURN(std::string text, ReadMaybeGzipFile(path, kMaxUnpacked));
      auto owner = std::make_shared<const std::string>(std::move(text));
      part.bytes = *owner;
      part.owner = std::move(owner);
    } else {
      ASSIGN_OR_RETURN(std::shared_ptr<const MappedFile> owner, MappedFile::Open(path));
      part.bytes = owner->bytes();
      part.owner = std::move(owner);
    }
    records.parts_.push_back(std::move(part));
    RETURN_IF_ERROR(records.Index(records.parts_.back(), kind, header));
  }
  return records;
}

const RecordFiles::Part& RecordFiles::PartOf(int64_t i) const {
  const auto after = std::upper_bound(parts_.begin(), parts_.end(), static_cast<size_t>(i),
                                      [](size_t record, const Part& part) { return record < part.first; });
  return *std::prev(after);
}

absl::string_view RecordFiles::operator[](int64_t i) const {
  const absl::string_view text = PartOf(i).bytes;
  const size_t begin = records_[static_cast<size_t>(i)];
  return WithoutLineEnd(text.substr(begin, EndOfRecord(text, begin, kind_) - begin));
}

std::string RecordFiles::Where(int64_t i) const {
  return absl::StrCat(PartOf(i).path, ", at byte ", records_[static_cast<size_t>(i)]);
}

}  // namespace composer
