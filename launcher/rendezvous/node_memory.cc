// SPDX-License-Identifier: Apache-2.0
#include "launcher/rendezvous/node_memory.h"

#include <fcntl.h>
#include <openssl/sha.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/file.h"
#include "base/log.h"

namespace composer {
namespace {

constexpr int kMaxLaunchers = 64;
constexpr int kMaxBytes = 16 << 10;
constexpr size_t kMaxIdBytes = 512;

std::string Digest(absl::string_view text) {
  unsigned char hash[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), hash);
  return absl::BytesToHexString(absl::string_view(reinterpret_cast<const char*>(hash), 12));
}

// Takes a lock of this process alone: it ends with the process, even if forked ones live on. Returns -1 if another
// launcher has it.
int Lock(const std::string& path) {
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return -1;
  struct flock lock{};
  lock.l_type = F_WRLCK;
  lock.l_whence = SEEK_SET;
  if (fcntl(fd, F_SETLK, &lock) == 0) return fd;
  close(fd);
  return -1;
}

bool IsFresh(const std::string& path) {
  struct stat info{};
  return stat(path.c_str(), &info) == 0 && absl::Now() - absl::FromTimeT(info.st_mtime) < kMemoryLasts;
}

}  // namespace

std::pair<std::string, proto::MembershipRecord> ParseNodeMemory(absl::string_view text) {
  proto::Reattach memory;
  if (text.size() > kMaxBytes || !memory.ParseFromArray(text.data(), static_cast<int>(text.size()))) return {};
  if (memory.node().node_id().empty() || memory.node().node_id().size() > kMaxIdBytes) return {};
  return {memory.node().node_id(), memory.record()};  // the rendezvous checks what it believes of a record
}

std::string NodeMemoryText(const std::string& node_id, const proto::MembershipRecord& record) {
  proto::Reattach memory;
  memory.mutable_node()->set_node_id(node_id);
  *memory.mutable_record() = record;
  return memory.SerializeAsString();
}

absl::StatusOr<std::unique_ptr<NodeMemory>> NodeMemory::Open(const std::string& registry, absl::string_view identity,
                                                             const std::string& fresh_id) {
  const std::string base = JoinPath(registry, absl::StrCat("node-", Digest(identity)));
  for (int i = 0; i < kMaxLaunchers; ++i) {
    const std::string path = absl::StrCat(base, "-", i);
    const int lock = Lock(path + ".lock");
    if (lock < 0) continue;
    std::pair<std::string, proto::MembershipRecord> known;
    if (IsFresh(path)) known = ParseNodeMemory(ReadFile(path, kMaxBytes).value_or(""));
    if (known.first.empty()) known = {fresh_id, {}};
    return std::unique_ptr<NodeMemory>(new NodeMemory(path, lock, std::move(known.first), std::move(known.second)));
  }
  return absl::ResourceExhaustedError(absl::StrCat("cannot lock any of ", base, "-0 to -", kMaxLaunchers - 1));
}

NodeMemory::NodeMemory(std::string path, int lock, std::string node_id, proto::MembershipRecord record)
    : path_(std::move(path)), lock_(lock), node_id_(std::move(node_id)), record_(std::move(record)) {}

NodeMemory::~NodeMemory() { close(lock_); }

void NodeMemory::Write(const proto::MembershipRecord& record) {
  const std::string text = NodeMemoryText(node_id_, record), next = path_ + ".next";
  absl::MutexLock lock(&mutex_);
  if (forgotten_) return;
  const int fd = open(next.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
  const bool written = fd >= 0 && write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  if (fd >= 0) close(fd);
  if (written && std::rename(next.c_str(), path_.c_str()) == 0) return;
  if (std::exchange(told_, true)) return;
  LOG(WARNING) << ErrnoStatus(errno, "cannot write", path_).message()
               << ": if this launcher is killed, the next one will not know what it was in";
}

void NodeMemory::Forget() {
  absl::MutexLock lock(&mutex_);
  forgotten_ = true;
  RemoveFile(path_).IgnoreError();
}

}  // namespace composer
