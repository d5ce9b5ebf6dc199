// SPDX-License-Identifier: Apache-2.0
#include "storage/sftp_store.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/file.h"
#include "base/status_macros.h"
#include "storage/leftovers.h"
#include "storage/object_requests.h"

namespace composer {
namespace {

constexpr char kRenameOver[] = "posix-rename@openssh.com", kLink[] = "hardlink@openssh.com",
               kSync[] = "fsync@openssh.com";
constexpr int kMostDepth = 64;  // of folders, so that a server cannot go on for ever

absl::Status Extended(SftpLink& link, const char* name, const std::vector<std::string>& arguments) {
  const absl::Status status = link.Ask(SftpRequest::kExtended,
                                       [&](SftpPacket& packet) {
                                         packet.Text(name);
                                         for (const std::string& argument : arguments) packet.Text(argument);
                                       })
                                  .status();
  if (!absl::IsUnimplemented(status)) return status;
  return absl::UnimplementedError(absl::StrCat("the SFTP server lacks ", name, ", which OpenSSH's has"));
}

absl::StatusOr<std::string> OpenOnServer(SftpLink& link, const std::string& path, uint32_t flags) {
  ASSIGN_OR_RETURN(const SftpAnswer answer, link.Ask(SftpRequest::kOpen, [&](SftpPacket& packet) {
    packet.Text(path).Number(flags).Number(0);
  }));
  if (answer.kind != SftpAnswer::Kind::kHandle) return absl::InternalError("the server opened nothing");
  return answer.text;
}

// One folder's entries, without . and ..
absl::StatusOr<std::vector<SftpEntry>> EntriesOf(SftpLink& link, const std::string& path) {
  ASSIGN_OR_RETURN(const SftpAnswer opened,
                   link.Ask(SftpRequest::kOpenDir, [&](SftpPacket& packet) { packet.Text(path); }));
  std::vector<SftpEntry> entries;
  absl::Status status;
  while (status.ok()) {
    const absl::StatusOr<SftpAnswer> answer =
        link.Ask(SftpRequest::kReadDir, [&](SftpPacket& packet) { packet.Text(opened.text); });
    status = answer.status();
    if (!status.ok()) break;
    for (const SftpEntry& entry : answer->names) {
      if (entry.name != "." && entry.name != ".." && !absl::StrContains(entry.name, '/')) entries.push_back(entry);
    }
  }
  if (absl::IsUnavailable(status)) return status;
  RETURN_IF_ERROR(link.Do(SftpRequest::kClose, opened.text));
  if (!absl::IsOutOfRange(status)) return status;
  return entries;
}

}  // namespace

std::string SftpStore::Location(const std::string& key) const {
  return key.empty() ? options_.url : absl::StrCat(options_.url, "/", key);
}

std::string SftpStore::PathOf(absl::string_view key) const {
  return key.empty() ? options_.folder : JoinPath(options_.folder, key);
}

absl::StatusOr<std::shared_ptr<SftpLink>> SftpStore::Connected() {
  std::shared_ptr<SftpLink> link;
  {
    const absl::MutexLock lock(&mutex_);
    if (given_up_) return absl::CancelledError("given up");
    if (link_ != nullptr) return link_;
    ASSIGN_OR_RETURN(link_, SftpLink::Start(options_.command, options_.environment, options_.patience));
    link = link_;
  }
  const absl::Status greeted = link->Greet();
  if (greeted.ok()) return link;
  const absl::MutexLock lock(&mutex_);
  link_ = nullptr;
  return greeted;
}

void SftpStore::GiveUp() {
  const absl::MutexLock lock(&mutex_);
  given_up_ = true;
  if (link_ != nullptr) link_->Stop();
}

absl::Status SftpStore::With(const std::string& key, const Work& work, const bool* once) {
  const absl::MutexLock turn(&turn_);
  const absl::Time begin = absl::Now();
  for (int tries = 1;; ++tries) {
    const absl::StatusOr<std::shared_ptr<SftpLink>> link = Connected();
    const absl::Status status = link.ok() ? work(**link) : link.status();
    if (!absl::IsUnavailable(status)) return Annotate(status, Location(key));
    {
      const absl::MutexLock lock(&mutex_);
      if (given_up_) return absl::CancelledError(absl::StrCat(Location(key), ": given up"));
      link_ = nullptr;
    }
    made_.clear();
    const auto delay = DelayBeforeRetry(options_.retry, tries, absl::Now() - begin, UniformRandom());
    if (!delay.has_value() || (once != nullptr && *once)) return Annotate(status, Location(key));
    absl::SleepFor(*delay);
  }
}

absl::Status SftpStore::MakeFolders(SftpLink& link, const std::string& key) {
  const std::string path = DirName(PathOf(key));
  for (size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
    const std::string folder = path.substr(0, end);
    if (!made_.contains(folder)) {
      const absl::Status made =
          link.Ask(SftpRequest::kMakeDir, [&](SftpPacket& packet) { packet.Text(folder).Number(0); }).status();
      // It may have been there; that of a folder above may not be ours to make.
      if (absl::IsUnavailable(made)) return made;
      if (!made.ok() && end == path.npos)
        RETURN_IF_ERROR(link.Do(SftpRequest::kStat, folder).ok() ? absl::OkStatus() : made);
      made_.insert(folder);
    }
    if (end == path.npos) return absl::OkStatus();
  }
}

absl::StatusOr<std::string> SftpStore::WriteTemporary(SftpLink& link, const std::string& key, Pieces pieces) {
  RETURN_IF_ERROR(MakeFolders(link, key));
  const std::string temporary = TemporaryName(PathOf(key));
  absl::StatusOr<std::string> handle = OpenOnServer(link, temporary, kSftpWrite | kSftpCreate | kSftpExclusive);
  if (absl::IsNotFound(handle.status())) {  // the folder was deleted since
    made_.clear();
    RETURN_IF_ERROR(MakeFolders(link, key));
    handle = OpenOnServer(link, temporary, kSftpWrite | kSftpCreate | kSftpExclusive);
  }
  RETURN_IF_ERROR(handle.status());
  const int64_t size = SizeOfPieces(pieces), width = kSftpDataBytes;
  absl::Status status = link.AskMany(
      static_cast<size_t>((size + width - 1) / width), SftpRequest::kWrite,
      [&](size_t i, SftpPacket& packet) {
        const int64_t begin = static_cast<int64_t>(i) * width;
        const std::vector<absl::string_view> part = CutPieces(pieces, begin, std::min(size, begin + width));
        packet.Text(*handle).Long(static_cast<uint64_t>(begin)).Text(JoinPieces(part));
      },
      [](size_t, const SftpAnswer& answer) { return StatusOfSftp(answer); });
  if (status.ok()) {
    status = Extended(link, kSync, {*handle});
  }
  if (absl::IsUnavailable(status)) return status;
  const absl::Status closed = link.Do(SftpRequest::kClose, *handle);
  if (status.ok()) status = closed;
  if (status.ok()) return temporary;
  link.Do(SftpRequest::kRemove, temporary).IgnoreError();
  return status;
}

absl::Status SftpStore::Put(const std::string& key, Pieces pieces) {
  RETURN_IF_ERROR(CheckKey(key));
  return With(key, [&](SftpLink& link) -> absl::Status {
    ASSIGN_OR_RETURN(const std::string temporary, WriteTemporary(link, key, pieces));
    const absl::Status status = Extended(link, kRenameOver, {temporary, PathOf(key)});
    if (!status.ok()) link.Do(SftpRequest::kRemove, temporary).IgnoreError();
    return status;
  });
}

absl::Status SftpStore::PutIfAbsent(const std::string& key, Pieces pieces) {
  RETURN_IF_ERROR(CheckKey(key));
  bool may_be_there = false;
  return With(
      key,
      [&](SftpLink& link) -> absl::Status {
        const auto is_there = [&] { return link.Do(SftpRequest::kStat, PathOf(key)); };
        if (is_there().ok()) return absl::AlreadyExistsError("it is there");
        ASSIGN_OR_RETURN(const std::string temporary, WriteTemporary(link, key, pieces));
        may_be_there = true;
        absl::Status status = Extended(link, kLink, {temporary, PathOf(key)});
        if (absl::IsUnavailable(status)) return status;
        may_be_there = false;
        if (!status.ok() && is_there().ok()) status = absl::AlreadyExistsError("it is there");
        link.Do(SftpRequest::kRemove, temporary).IgnoreError();
        return status;
      },
      &may_be_there);
}

absl::StatusOr<int64_t> SftpStore::Size(const std::string& key) {
  RETURN_IF_ERROR(CheckKey(key));
  int64_t size = -1;
  RETURN_IF_ERROR(With(key, [&](SftpLink& link) -> absl::Status {
    ASSIGN_OR_RETURN(const SftpAnswer answer,
                     link.Ask(SftpRequest::kStat, [&](SftpPacket& packet) { packet.Text(PathOf(key)); }));
    size = answer.size;
    return size < 0 ? absl::InternalError("the server reports no size") : absl::OkStatus();
  }));
  return size;
}

absl::Status SftpStore::Read(const std::string& key, int64_t offset, absl::Span<char> into) {
  RETURN_IF_ERROR(CheckKey(key));
  return With(key, [&](SftpLink& link) -> absl::Status {
    ASSIGN_OR_RETURN(const std::string handle, OpenOnServer(link, PathOf(key), kSftpRead));
    const size_t width = kSftpDataBytes;
    const absl::Status status = link.AskMany(
        (into.size() + width - 1) / width, SftpRequest::kRead,
        [&](size_t i, SftpPacket& packet) {
          const size_t begin = i * width;
          packet.Text(handle)
              .Long(static_cast<uint64_t>(offset) + begin)
              .Number(static_cast<uint32_t>(std::min(width, into.size() - begin)));
        },
        [&](size_t i, const SftpAnswer& answer) -> absl::Status {
          RETURN_IF_ERROR(StatusOfSftp(answer));
          const size_t begin = i * width, wanted = std::min(width, into.size() - begin);
          if (answer.kind != SftpAnswer::Kind::kData || answer.text.size() > wanted)
            return absl::InternalError("the server sent other data than was asked for");
          if (answer.text.size() < wanted) return absl::OutOfRangeError("end of file");
          std::copy(answer.text.begin(), answer.text.end(), into.begin() + static_cast<std::ptrdiff_t>(begin));
          return absl::OkStatus();
        });
    if (absl::IsUnavailable(status)) return status;
    RETURN_IF_ERROR(link.Do(SftpRequest::kClose, handle));
    return status;
  });
}

absl::Status SftpStore::Walk(SftpLink& link, const std::string& folder,
                             const std::function<absl::Status(const std::string&, bool)>& visit) {
  if (std::count(folder.begin(), folder.end(), '/') > kMostDepth) return absl::InternalError("folders without an end");
  const absl::StatusOr<std::vector<SftpEntry>> entries = EntriesOf(link, PathOf(folder));
  if (absl::IsNotFound(entries.status())) return absl::OkStatus();
  RETURN_IF_ERROR(entries.status());
  for (const SftpEntry& entry : *entries) {
    const std::string key = folder.empty() ? entry.name : absl::StrCat(folder, "/", entry.name);
    if (entry.is_folder && CheckKey(key).ok()) RETURN_IF_ERROR(Walk(link, key, visit));
    if (entry.is_folder ? CheckKey(key).ok() : CheckListedKey(key).ok()) RETURN_IF_ERROR(visit(key, entry.is_folder));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<std::string>> SftpStore::List(const std::string& folder) {
  if (!folder.empty()) RETURN_IF_ERROR(CheckKey(folder));
  std::vector<std::string> keys;
  RETURN_IF_ERROR(With(folder, [&](SftpLink& link) {
    keys.clear();
    return Walk(link, folder, [&](const std::string& key, bool is_folder) {
      if (!is_folder) keys.push_back(key);
      return absl::OkStatus();
    });
  }));
  std::sort(keys.begin(), keys.end());
  return keys;
}

absl::Status SftpStore::Delete(const std::string& key) {
  RETURN_IF_ERROR(CheckListedKey(key));
  return With(key, [&](SftpLink& link) {
    const absl::Status status = link.Do(SftpRequest::kRemove, PathOf(key));
    return absl::IsNotFound(status) ? absl::OkStatus() : status;
  });
}

absl::Status SftpStore::DeleteTree(const std::string& folder) {
  RETURN_IF_ERROR(CheckKey(folder));
  return With(folder, [&](SftpLink& link) {
    made_.clear();
    const auto remove = [&](const std::string& key, bool is_folder) {
      const absl::Status status = link.Do(is_folder ? SftpRequest::kRemoveDir : SftpRequest::kRemove, PathOf(key));
      return absl::IsNotFound(status) ? absl::OkStatus() : status;
    };
    RETURN_IF_ERROR(Walk(link, folder, remove));
    return remove(folder, true);
  });
}

}  // namespace composer
