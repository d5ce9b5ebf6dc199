// SPDX-License-Identifier: Apache-2.0
#include "trainer/loggers/remote_uploader.h"

#include <fcntl.h>
#include <fnmatch.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "base/file.h"
#include "base/status_macros.h"

namespace composer {
namespace {

namespace fs = std::filesystem;

constexpr absl::string_view kNameHolder = "{remote_file_name}";
constexpr absl::string_view kCheckName = "uploads_begin_here.txt";

bool MatchesAny(const std::vector<std::string>& patterns, const std::string& name) {
  return std::any_of(patterns.begin(), patterns.end(),
                     [&](const std::string& pattern) { return fnmatch(pattern.c_str(), name.c_str(), 0) == 0; });
}

// Reads in pieces into a file beside `path`, which then replaces it.
absl::Status FetchObject(ObjectStore& store, const std::string& key, const std::string& path) {
  constexpr int64_t kPiece = 8 << 20;
  ASSIGN_OR_RETURN(const int64_t size, store.Size(key));
  const std::string part = absl::StrCat(path, ".part-", getpid());
  const int fd = open(part.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) return ErrnoStatus(errno, "create", part);
  absl::Status status;
  std::string piece;
  for (int64_t at = 0; status.ok() && at < size; at += kPiece) {
    piece.resize(static_cast<size_t>(std::min(kPiece, size - at)));
    status = store.Read(key, at, absl::MakeSpan(piece));
    if (status.ok()) status = WriteAll(fd, piece, part);
  }
  if (close(fd) != 0) status.Update(ErrnoStatus(errno, "write", part));
  if (status.ok() && rename(part.c_str(), path.c_str()) != 0) status = ErrnoStatus(errno, "rename to", path);
  if (!status.ok()) RemoveFile(part).IgnoreError();
  return status;
}

}  // namespace

std::string RemoteKey(absl::string_view name) {
  std::vector<std::string> parts;
  for (const absl::string_view part : absl::StrSplit(name, '/', absl::SkipEmpty())) {
    std::string safe(part);
    for (char& c : safe) {
      if (!absl::ascii_isalnum(static_cast<unsigned char>(c)) && c != '.' && c != '_' && c != '-') c = '_';
    }
    if (safe[0] == '.') safe[0] = '_';
    parts.push_back(std::move(safe));
  }
  return absl::StrJoin(parts, "/");
}

RemoteUploader::RemoteUploader(std::shared_ptr<ObjectStore> store, Options options)
    : store_(std::move(store)), options_(std::move(options)), queue_(store_, options_.queue) {}

std::string RemoteUploader::KeyOf(absl::string_view name) const {
  return RemoteKey(absl::StrReplaceAll(options_.key_format, {{kNameHolder, name}}));
}

absl::Status RemoteUploader::CheckStore() {
  const std::string key = KeyOf(kCheckName);
  return Annotate(store_->Put(key, {"files of this run are uploaded here\n"}),
                  absl::StrCat("remote_uploader_downloader cannot write ", store_->Location(key)));
}

absl::Status RemoteUploader::TakeFile(absl::string_view name, const std::string& path) {
  RETURN_IF_ERROR(MakeDirs(options_.staging_folder));
  const std::string staged = JoinPath(options_.staging_folder, absl::StrCat(++staged_));
  std::error_code error;
  fs::copy_file(path, staged, fs::copy_options::overwrite_existing, error);
  if (error) {
    RemoveFile(staged).IgnoreError();
    return ErrnoStatus(error.value(), "copy for its upload", path);
  }
  return queue_.Add(KeyOf(name), staged);
}

absl::Status RemoteUploader::FetchFile(absl::string_view name, const std::string& path) {
  RETURN_IF_ERROR(queue_.Flush(options_.flush_timeout));
  return FetchObject(*store_, KeyOf(name), path);
}

std::vector<std::string> RemoteUploader::NamesInRunFolder() const {
  std::vector<std::string> names;
  std::error_code error;
  fs::recursive_directory_iterator at(options_.run_folder, fs::directory_options::skip_permission_denied, error), end;
  for (; !error && at != end; at.increment(error)) {
    std::error_code ignored;
    const std::string name = at->path().lexically_relative(options_.run_folder).string();
    if (at->is_regular_file(ignored) && !at->is_symlink(ignored) && MatchesAny(options_.files, name) &&
        !absl::StartsWith(at->path().string(), absl::StrCat(options_.staging_folder, "/")))
      names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

absl::Status RemoteUploader::TakeChanged() {
  absl::Status first;
  for (const std::string& name : NamesInRunFolder()) {
    const std::string path = JoinPath(options_.run_folder, name);
    std::error_code size_error, time_error;
    const Version version = {static_cast<int64_t>(fs::file_size(path, size_error)),
                             static_cast<int64_t>(fs::last_write_time(path, time_error).time_since_epoch().count())};
    if (size_error || time_error) continue;  // the file was removed meanwhile
    const auto known = taken_.find(name);
    if (known != taken_.end() && known->second == version) continue;
    const absl::Status status = TakeFile(name, path);
    if (status.ok()) taken_[name] = version;
    if (first.ok()) first = status;
  }
  return first;
}

absl::Status RemoteUploader::Write(const MetricRecord& record) {
  const int64_t batch = record.timestamp.batch;
  if (batch / options_.interval != last_ / options_.interval) {
    last_ = batch;
    RETURN_IF_ERROR(TakeChanged());
  }
  return queue_.TakeFailures();
}

absl::Status RemoteUploader::Close() {
  const absl::Status taken = TakeChanged();
  const bool in_haste = options_.in_haste && options_.in_haste();
  const absl::Status flushed = queue_.Flush(in_haste ? options_.hasty_flush_timeout : options_.flush_timeout);
  const absl::Status failed = queue_.TakeFailures();
  RemoveTree(options_.staging_folder).IgnoreError();
  return !failed.ok() ? failed : !flushed.ok() ? flushed : taken;
}

}  // namespace composer
