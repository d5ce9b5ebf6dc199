// SPDX-License-Identifier: Apache-2.0
#include "data/cache/shard_cache.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <thread>
#include <tuple>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/synchronization/notification.h"
#include "base/file.h"
#include "base/status_macros.h"

namespace composer {
namespace {

constexpr absl::string_view kShard = ".shard", kPart = ".part", kLock = ".lock";
constexpr int kMostRounds = 20;  // times that a fetched file may be evicted before it is used

bool IsName(absl::string_view name) {
  return !name.empty() && name.size() <= 200 && name[0] != '.' && std::all_of(name.begin(), name.end(), [](char c) {
    return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '.' || c == '_' || c == '-';
  });
}

// What another try may mend.
bool MayPass(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) || absl::IsInternal(status) ||
         absl::IsDataLoss(status) || absl::IsOutOfRange(status) || absl::IsUnknown(status) || absl::IsAborted(status);
}

// Returns no file for one that must be fetched.
absl::StatusOr<std::shared_ptr<const MappedFile>> OrNone(absl::StatusOr<std::shared_ptr<const MappedFile>> file) {
  if (absl::IsNotFound(file.status()) || absl::IsDataLoss(file.status())) return std::shared_ptr<const MappedFile>();
  return file;
}

// A file of the cache: a fetched one, or what is being fetched.
struct StoredFile {
  bool whole = false;
  timespec used = {};
  std::string name;
  int64_t bytes = 0;

  // What goes first.
  friend bool operator<(const StoredFile& a, const StoredFile& b) {
    return std::tie(a.whole, a.used.tv_sec, a.used.tv_nsec, a.name) <
           std::tie(b.whole, b.used.tv_sec, b.used.tv_nsec, b.name);
  }
};

// Returns what fetch() gives; none when it takes longer than the timeout, which only passes in real time.
std::optional<absl::StatusOr<std::string>> FetchInTime(const CachedItem& item, absl::Duration timeout) {
  struct Shared {
    std::function<absl::StatusOr<std::string>()> fetch;
    absl::StatusOr<std::string> content = absl::InternalError("");
    absl::Notification done;
  };
  auto shared = std::make_shared<Shared>();
  shared->fetch = item.fetch;
  std::thread([shared] {
    shared->content = shared->fetch();
    shared->done.Notify();
  }).detach();
  if (!shared->done.WaitForNotificationWithTimeout(timeout)) return std::nullopt;
  return std::move(shared->content);
}

absl::StatusOr<std::vector<StoredFile>> ListStored(const std::string& folder) {
  ASSIGN_OR_RETURN(const std::vector<std::string> names, ListDir(folder));
  std::vector<StoredFile> files;
  for (const absl::string_view file : names) {
    StoredFile stored;
    stored.whole = absl::EndsWith(file, kShard);
    if (!stored.whole && !absl::EndsWith(file, kPart)) continue;
    stored.name = std::string(absl::StripSuffix(file, stored.whole ? kShard : kPart));
    struct stat facts;
    if (!IsName(stored.name) || lstat(JoinPath(folder, file).c_str(), &facts) != 0 || !S_ISREG(facts.st_mode)) continue;
    stored.used = facts.st_atim;
    stored.bytes = facts.st_size;
    files.push_back(std::move(stored));
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

absl::StatusOr<std::shared_ptr<ShardCache>> ShardCache::Open(ShardCacheOptions options, Clock& clock) {
  if (options.folder.empty()) return absl::InvalidArgumentError("the cache of shards needs a folder");
  if (options.limit.value_or(1) <= 0)
    return absl::InvalidArgumentError(absl::StrCat("cache_limit is ", *options.limit, " bytes; it must be positive"));
  std::string folder = JoinPath(AbsolutePath(options.folder), "composer-shards");
  RETURN_IF_ERROR(MakeDirs(folder));
  std::shared_ptr<ShardCache> cache(new ShardCache(std::move(options), std::move(folder), clock));
  const absl::Status lock = FileLock::Try(cache->PathOf("room", kLock), FileLock::Mode::kShared).status();
  if (!lock.ok() && !absl::IsUnavailable(lock)) return lock;
  return cache;
}

std::string ShardCache::PathOf(const std::string& name, absl::string_view kind) const {
  return absl::StrCat(folder_, "/", name, kind);
}

absl::StatusOr<std::shared_ptr<const CachedFile>> ShardCache::Get(const CachedItem& item) {
  if (!IsName(item.name)) return absl::InvalidArgumentError(absl::StrCat("`", item.name, "` is not a name for a file"));
  const std::string lock_path = PathOf(item.name, kLock);
  for (int round = 0; round < kMostRounds; ++round) {
    {
      ASSIGN_OR_RETURN(FileLock shared, FileLock::Wait(lock_path, FileLock::Mode::kShared, options_.patience, clock_));
      ASSIGN_OR_RETURN(const std::shared_ptr<const MappedFile> file, OrNone(MapGood(item)));
      if (file != nullptr) return std::make_shared<const CachedFile>(file, std::move(shared));
    }
    ASSIGN_OR_RETURN(const FileLock own,
                     FileLock::Wait(lock_path, FileLock::Mode::kExclusive, options_.patience, clock_));
    // Another may have fetched it meanwhile.
    ASSIGN_OR_RETURN(const std::shared_ptr<const MappedFile> file, OrNone(MapGood(item)));
    if (file == nullptr) RETURN_IF_ERROR(Keep(item));
  }
  return absl::ResourceExhaustedError(
      absl::StrCat("the cache ", folder_, " evicts ", item.name, " before it can be used; raise cache_limit"));
}

void ShardCache::Forget(const std::string& name) {
  if (!IsName(name)) return;
  const auto lock = FileLock::Try(PathOf(name, kLock), FileLock::Mode::kExclusive);
  if (lock.ok()) RemoveFile(PathOf(name, kShard)).IgnoreError();  // if it cannot be deleted, it is found wrong again
}

// Maps the file, whose lock the caller holds. kNotFound, kDataLoss: it must be fetched.
absl::StatusOr<std::shared_ptr<const MappedFile>> ShardCache::MapGood(const CachedItem& item) {
  const std::string path = PathOf(item.name, kShard);
  struct stat facts;
  if (stat(path.c_str(), &facts) != 0) return ErrnoStatus(errno, "open", path);
  ASSIGN_OR_RETURN(std::shared_ptr<const MappedFile> file, MappedFile::Open(path));
  if (static_cast<int64_t>(file->bytes().size()) != item.bytes)
    return absl::DataLossError(absl::StrCat(path, " has another size"));
  const FileVersion version(item.name, facts.st_ino, facts.st_mtim.tv_sec, facts.st_mtim.tv_nsec);
  bool checked;
  {
    absl::MutexLock hold(&mutex_);
    checked = checked_.count(version) > 0;
  }
  if (!checked) {
    RETURN_IF_ERROR(item.check(file->bytes()));
    absl::MutexLock hold(&mutex_);
    checked_.insert(version);
  }
  timespec now_and_as_it_was[2] = {{}, {.tv_sec = 0, .tv_nsec = UTIME_OMIT}};
  clock_gettime(CLOCK_REALTIME, &now_and_as_it_was[0]);     // UTIME_NOW is some milliseconds coarse
  utimensat(AT_FDCWD, path.c_str(), now_and_as_it_was, 0);  // for eviction; a failure only makes it less clever
  return file;
}

absl::StatusOr<std::string> ShardCache::FetchWithRetries(const CachedItem& item) {
  const absl::Time begin = clock_.Now();
  for (int tries = 1;; ++tries) {
    auto fetched = FetchInTime(item, options_.fetch_timeout);
    if (!fetched) {
      return absl::DeadlineExceededError(
          absl::StrCat(item.place, " has not answered for ", absl::FormatDuration(options_.fetch_timeout)));
    }
    absl::StatusOr<std::string> content = *std::move(fetched);
    if (content.ok() && static_cast<int64_t>(content->size()) != item.bytes)
      content = absl::DataLossError(absl::StrCat(item.name, " was fetched with another size than the index says"));
    if (content.ok()) {
      if (const absl::Status good = item.check(*content); !good.ok()) content = good;
    }
    if (content.ok() || !MayPass(content.status())) return content;
    const auto delay = DelayBeforeRetry(options_.retry, tries, clock_.Now() - begin, UniformRandom());
    if (!delay) return Annotate(content.status(), absl::StrCat("after ", tries, " tries"));
    clock_.SleepFor(*delay);
  }
}

absl::StatusOr<FileLock> ShardCache::LockRoom() {
  return FileLock::Wait(PathOf("room", kLock), FileLock::Mode::kExclusive, options_.patience, clock_);
}

// Fetches and stores the file. The caller holds its lock alone.
absl::Status ShardCache::Keep(const CachedItem& item) {
  const std::string path = PathOf(item.name, kShard), part = PathOf(item.name, kPart);
  RETURN_IF_ERROR(RemoveFile(path));
  ASSIGN_OR_RETURN(const std::string content, FetchWithRetries(item));
  absl::Cleanup remove_part = [&] { RemoveFile(part).IgnoreError(); };
  {
    ASSIGN_OR_RETURN(const int fd, Reserve(part, item.bytes));
    const absl::Cleanup close_fd = [fd] { close(fd); };
    RETURN_IF_ERROR(WriteAll(fd, content, part));
    if (fdatasync(fd) != 0) return ErrnoStatus(errno, "sync", part);
  }
  // A listing in MakeRoom that met the file between its names would count neither.
  ASSIGN_OR_RETURN(const FileLock room, LockRoom());
  if (rename(part.c_str(), path.c_str()) != 0) return ErrnoStatus(errno, "rename", part);
  std::move(remove_part).Cancel();
  return absl::OkStatus();
}

// Opens a file of this size, which from now on counts as used room.
absl::StatusOr<int> ShardCache::Reserve(const std::string& path, int64_t bytes) {
  RETURN_IF_ERROR(RemoveFile(path));
  const absl::Time deadline = clock_.Now() + options_.patience;
  for (;;) {
    {
      ASSIGN_OR_RETURN(const FileLock room, LockRoom());
      const absl::Status made = MakeRoom(bytes);
      if (made.ok()) {
        const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
        if (fd < 0) return ErrnoStatus(errno, "create", path);
        if (ftruncate(fd, bytes) == 0) return fd;
        const absl::Status failed = ErrnoStatus(errno, "reserve room for", path);
        close(fd);
        return failed;
      }
      if (!absl::IsResourceExhausted(made) || bytes > options_.limit.value_or(bytes) || clock_.Now() >= deadline)
        return made;
    }
    clock_.SleepFor(absl::Milliseconds(20));
  }
}

// Evicts until the bytes fit. The caller holds the lock of the room.
absl::Status ShardCache::MakeRoom(int64_t bytes) {
  if (!options_.limit) return absl::OkStatus();
  ASSIGN_OR_RETURN(const std::vector<StoredFile> files, ListStored(folder_));
  int64_t used = 0;
  for (const StoredFile& file : files) used += file.bytes;
  for (const StoredFile& file : files) {
    if (used + bytes <= *options_.limit) break;
    const auto lock = FileLock::Try(PathOf(file.name, kLock), FileLock::Mode::kExclusive);
    if (!lock.ok()) continue;  // in use
    const std::string path = PathOf(file.name, file.whole ? kShard : kPart);
    if (RemoveFile(path).ok()) used -= file.bytes;
  }
  if (used + bytes <= *options_.limit) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat("the cache ", folder_, " has no room for ", bytes, " bytes: ", used,
                                                   " bytes are in use, and cache_limit is ", *options_.limit,
                                                   "; raise it, or keep fewer shards open"));
}

}  // namespace composer
