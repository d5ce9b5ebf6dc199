// SPDX-License-Identifier: Apache-2.0
#include "tests/support/power_cut_disk.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/status_macros.h"
#include "storage/object_store.h"

namespace composer {
namespace {

absl::Status NoSuch(const std::string& path) { return absl::NotFoundError(absl::StrCat("cannot open ", path)); }
absl::Status Taken(const std::string& path) { return absl::AlreadyExistsError(absl::StrCat("cannot create ", path)); }

}  // namespace

void PowerCutDisk::CutAt(int step) {
  absl::MutexLock lock(&mutex_);
  steps_left_ = step;
}

bool PowerCutDisk::is_off() const {
  absl::MutexLock lock(&mutex_);
  return off_;
}

void PowerCutDisk::FailWrites(absl::Status status) {
  absl::MutexLock lock(&mutex_);
  write_error_ = std::move(status);
}

void PowerCutDisk::FlipBit(const std::string& path, int64_t bit) {
  absl::MutexLock lock(&mutex_);
  File& file = *files_.cached.at(path);
  for (std::string* bytes : {&file.cached, &file.durable}) {
    char& byte = bytes->at(static_cast<size_t>(bit / 8));
    byte = static_cast<char>(byte ^ (1 << (bit % 8)));
  }
}

void PowerCutDisk::Truncate(const std::string& path, int64_t size) {
  absl::MutexLock lock(&mutex_);
  File& file = *files_.cached.at(path);
  file.cached.resize(static_cast<size_t>(size));
  file.durable.resize(static_cast<size_t>(size));
}

void PowerCutDisk::Reboot(Loses loses) {
  absl::MutexLock lock(&mutex_);
  if (loses == Loses::kAllUnsynced) {
    folders_.cached.clear();
    for (const std::string& folder : folders_.durable) {  // sorted: a parent comes before its children
      if (folder == "/" || folders_.cached.count(DirName(folder)) > 0) folders_.cached.insert(folder);
    }
    files_.cached.clear();
    for (const auto& [path, file] : files_.durable) {
      if (folders_.cached.count(DirName(path)) > 0) files_.cached[path] = file;
    }
  }
  for (const auto& [path, file] : files_.cached) {
    if (loses != Loses::kNothing) file->cached = file->durable;
    file->durable = file->cached;
  }
  files_.durable = files_.cached;
  folders_.durable = folders_.cached;
  off_ = false;
  steps_left_ = -1;
}

absl::Status PowerCutDisk::CheckOn() const {
  return off_ ? absl::UnavailableError("the power is off") : absl::OkStatus();
}

absl::Status PowerCutDisk::Step() {
  RETURN_IF_ERROR(CheckOn());
  if (steps_left_ == 0) off_ = true;
  if (steps_left_ >= 0) --steps_left_;
  RETURN_IF_ERROR(CheckOn());
  return write_error_;
}

absl::Status PowerCutDisk::WriteNewFile(const std::string& path, absl::Span<const absl::string_view> pieces) {
  absl::MutexLock lock(&mutex_);
  RETURN_IF_ERROR(CheckOn());
  if (files_.cached.count(path) > 0) return Taken(path);
  if (folders_.cached.count(DirName(path)) == 0) return NoSuch(path);
  RETURN_IF_ERROR(Step());  // cut before anything
  const auto file = std::make_shared<File>();
  files_.cached[path] = file;
  const std::string bytes = JoinPieces(pieces);
  file->cached = bytes.substr(0, bytes.size() / 2);
  RETURN_IF_ERROR(Step());  // cut with half a file
  file->cached = bytes;
  RETURN_IF_ERROR(Step());  // cut before the sync
  file->durable = bytes;
  return absl::OkStatus();
}

absl::Status PowerCutDisk::Rename(const std::string& from, const std::string& to) {
  absl::MutexLock lock(&mutex_);
  RETURN_IF_ERROR(Step());
  const auto found = files_.cached.find(from);
  if (found == files_.cached.end()) return NoSuch(from);
  files_.cached[to] = found->second;
  files_.cached.erase(from);
  return absl::OkStatus();
}

absl::Status PowerCutDisk::Link(const std::string& from, const std::string& to) {
  absl::MutexLock lock(&mutex_);
  RETURN_IF_ERROR(Step());
  if (files_.cached.count(to) > 0) return Taken(to);
  const auto found = files_.cached.find(from);
  if (found == files_.cached.end()) return NoSuch(from);
  const auto file = found->second;
  files_.cached[to] = file;
  return absl::OkStatus();
}

absl::Status PowerCutDisk::Remove(const std::string& path) {
  absl::MutexLock lock(&mutex_);
  RETURN_IF_ERROR(CheckOn());
  if (write_error_.ok()) RETURN_IF_ERROR(Step());  // a full disk can still remove files
  files_.cached.erase(path);
  const auto in_it = [&path](const std::string& other) { return absl::StartsWith(other, path + "/"); };
  const bool has_files =
      std::any_of(files_.cached.begin(), files_.cached.end(), [&](const auto& entry) { return in_it(entry.first); });
  if (has_files || std::any_of(folders_.cached.begin(), folders_.cached.end(), in_it)) {
    return absl::InternalError(absl::StrCat("cannot remove ", path, ": not empty"));
  }
  folders_.cached.erase(path);
  return absl::OkStatus();
}

absl::Status PowerCutDisk::MakeFolder(const std::string& path) {
  absl::MutexLock lock(&mutex_);
  RETURN_IF_ERROR(CheckOn());
  if (folders_.cached.count(path) > 0) return absl::OkStatus();
  if (folders_.cached.count(DirName(path)) == 0) return NoSuch(path);
  RETURN_IF_ERROR(Step());
  folders_.cached.insert(path);
  return absl::OkStatus();
}

absl::Status PowerCutDisk::SyncFolder(const std::string& path) {
  absl::MutexLock lock(&mutex_);
  RETURN_IF_ERROR(Step());
  if (folders_.cached.count(path) == 0) return NoSuch(path);
  const auto inside = [&path](const std::string& other) { return other != "/" && DirName(other) == path; };
  for (auto it = files_.durable.begin(); it != files_.durable.end();) {
    it = inside(it->first) ? files_.durable.erase(it) : std::next(it);
  }
  for (const auto& [name, file] : files_.cached) {
    if (inside(name)) files_.durable[name] = file;
  }
  for (auto it = folders_.durable.begin(); it != folders_.durable.end();) {
    it = inside(*it) ? folders_.durable.erase(it) : std::next(it);
  }
  for (const std::string& folder : folders_.cached) {
    if (inside(folder)) folders_.durable.insert(folder);
  }
  return absl::OkStatus();
}

absl::StatusOr<int64_t> PowerCutDisk::Size(const std::string& path) {
  absl::MutexLock lock(&mutex_);
  RETURN_IF_ERROR(CheckOn());
  const auto found = files_.cached.find(path);
  if (found == files_.cached.end()) return NoSuch(path);
  return static_cast<int64_t>(found->second->cached.size());
}

absl::Status PowerCutDisk::Read(const std::string& path, int64_t offset, absl::Span<char> into) {
  absl::MutexLock lock(&mutex_);
  RETURN_IF_ERROR(CheckOn());
  const auto found = files_.cached.find(path);
  if (found == files_.cached.end()) return NoSuch(path);
  const std::string& bytes = found->second->cached;
  const size_t begin = std::min(bytes.size(), static_cast<size_t>(offset));
  if (bytes.size() - begin < into.size()) return absl::OutOfRangeError(absl::StrCat(path, " ends too early"));
  std::copy_n(bytes.data() + begin, into.size(), into.data());
  return absl::OkStatus();
}

absl::StatusOr<std::vector<FileSystem::Entry>> PowerCutDisk::List(const std::string& path) {
  absl::MutexLock lock(&mutex_);
  RETURN_IF_ERROR(CheckOn());
  if (folders_.cached.count(path) == 0) return NoSuch(path);
  std::vector<Entry> entries;
  for (const auto& [name, file] : files_.cached) {
    if (DirName(name) == path) entries.push_back({BaseName(name), false});
  }
  for (const std::string& folder : folders_.cached) {
    if (folder != "/" && DirName(folder) == path) entries.push_back({BaseName(folder), true});
  }
  std::sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.name < b.name; });
  return entries;
}

}  // namespace composer
