// SPDX-License-Identifier: Apache-2.0
#include "trainer/collectives/shared_segment.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstring>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "base/file.h"
#include "base/random.h"
#include "base/status_macros.h"
#include "trainer/core/torch_status.h"

namespace composer {
namespace {

constexpr char kName[] = "composer-collectives";
constexpr int64_t kPage = 4096;
// The spin takes some tens of microseconds if each rank has a core: a running peer is that close. Then comes the futex,
// not sched_yield: on a busy machine a thread that yields waits for everyone else's time slice, while one that is woken
// runs soon.
constexpr int kPauses = 2000;
constexpr absl::Duration kSlice = absl::Milliseconds(50);  // between checks for peers that are gone

void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// This is not FUTEX_PRIVATE, since the ranks are processes.
void FutexWait(std::atomic<uint32_t>& word, uint32_t seen, absl::Duration limit) {
  const timespec time = absl::ToTimespec(limit);
  syscall(SYS_futex, &word, FUTEX_WAIT, seen, &time, nullptr, 0);
}

void FutexWakeAll(std::atomic<uint32_t>& word) { syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0); }

std::string BootId() {
  const absl::StatusOr<std::string> id = ReadFile("/proc/sys/kernel/random/boot_id");
  return id.ok() ? std::string(absl::StripAsciiWhitespace(*id)) : "";
}

absl::Status Unusable(absl::string_view what) {
  return absl::FailedPreconditionError(absl::StrCat("shared memory: ", what, ": ", std::strerror(errno)));
}

absl::Status NotOurs() {
  return absl::FailedPreconditionError("shared memory: the first rank's file is not to be seen from here");
}

}  // namespace

struct SharedSegment::Header {
  std::atomic<uint64_t> token;
};

struct alignas(128) SharedSegment::Peer {
  std::atomic<uint32_t> round;     // the last one published; others wait on it
  std::atomic<uint32_t> sleepers;  // the number of ranks that wait on it in the kernel
  std::atomic<uint32_t> left;
  std::atomic<int32_t> pid;
  std::atomic<uint64_t> calls[2][3];  // of even and odd rounds, like the slots
};

SharedSegment::SharedSegment(const Options& options) : options_(options) {
  cpu_set_t cores;
  if (sched_getaffinity(0, sizeof(cores), &cores) == 0 && CPU_COUNT(&cores) >= options.size) pauses_ = kPauses;
}

// The memory is laid out as [header, a page][peers][rank 0: even slot, odd slot][rank 1: …].
int64_t SharedSegment::Bytes(const Options& options) {
  return kPage + kMaxRanks * int64_t{sizeof(Peer)} + 2 * options.size * options.slot_bytes;
}

SharedSegment::Peer& SharedSegment::peer(int rank) const {
  return reinterpret_cast<Peer*>(static_cast<std::byte*>(memory_) + kPage)[rank];
}

std::byte* SharedSegment::Slot(int rank, uint32_t round) const {
  return static_cast<std::byte*>(memory_) + kPage + kMaxRanks * sizeof(Peer) +
         (int64_t{rank} * 2 + (round & 1)) * options_.slot_bytes;
}

absl::Status SharedSegment::Map(int fd) {
  void* memory = mmap(nullptr, static_cast<size_t>(Bytes(options_)), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) return Unusable(absl::StrCat("mapping ", Bytes(options_), " bytes"));
  memory_ = memory;
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<SharedSegment>> SharedSegment::Create(const Options& options) {
  std::unique_ptr<SharedSegment> segment(new SharedSegment(options));
  segment->fd_ = memfd_create(kName, MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (segment->fd_ < 0) return Unusable("memfd_create");
  if (ftruncate(segment->fd_, Bytes(options)) != 0) return Unusable(absl::StrCat("making ", Bytes(options), " bytes"));
  // Sealing prevents shrinking, which would give the others SIGBUS.
  if (fcntl(segment->fd_, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) return Unusable("sealing");
  RETURN_IF_ERROR(segment->Map(segment->fd_));
  const uint64_t token = RandomBits() | 1;
  static_cast<Header*>(segment->memory_)->token.store(token);
  segment->peer(options.rank).pid.store(getpid());
  segment->ticket_ = absl::StrCat(BootId(), " ", getpid(), " ", segment->fd_, " ", token);
  return segment;
}

absl::StatusOr<std::unique_ptr<SharedSegment>> SharedSegment::Open(const Options& options, const std::string& ticket) {
  const std::vector<std::string> fields = absl::StrSplit(ticket, ' ');
  int pid = 0, number = 0;
  uint64_t token = 0;
  if (fields.size() != 4 || !absl::SimpleAtoi(fields[1], &pid) || !absl::SimpleAtoi(fields[2], &number) ||
      !absl::SimpleAtoi(fields[3], &token)) {
    return absl::FailedPreconditionError(absl::StrCat("shared memory: the first rank says \"", ticket, "\""));
  }
  if (fields[0] != BootId() || fields[0].empty())
    return absl::FailedPreconditionError("shared memory: the first rank is on another host");
  const std::string path = absl::StrCat("/proc/", pid, "/fd/", number);
  // Another process may have this pid in another pid namespace; its file is not ours and must not be opened.
  char target[64] = {};
  if (readlink(path.c_str(), target, sizeof(target) - 1) < 0) return Unusable(absl::StrCat("looking at ", path));
  if (!absl::StartsWith(target, absl::StrCat("/memfd:", kName))) return NotOurs();
  const int fd = open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) return Unusable(absl::StrCat("opening ", path));
  const absl::Cleanup close_fd = [fd] { close(fd); };
  struct stat facts{};
  std::unique_ptr<SharedSegment> segment(new SharedSegment(options));
  if (fstat(fd, &facts) != 0 || facts.st_size != Bytes(options)) return NotOurs();
  RETURN_IF_ERROR(segment->Map(fd));
  if (static_cast<Header*>(segment->memory_)->token.load() != token) {
    munmap(segment->memory_, static_cast<size_t>(Bytes(options)));
    segment->memory_ = nullptr;
    return NotOurs();
  }
  segment->peer(options.rank).pid.store(getpid());
  return segment;
}

SharedSegment::~SharedSegment() {
  CloseTicket();
  for (const int fd : pidfds_) {
    if (fd >= 0) close(fd);
  }
  if (memory_ == nullptr) return;
  peer(options_.rank).left.store(1);
  FutexWakeAll(peer(options_.rank).round);
  munmap(memory_, static_cast<size_t>(Bytes(options_)));
}

void SharedSegment::CloseTicket() {
  if (fd_ >= 0) close(fd_);
  fd_ = -1;
}

void SharedSegment::WatchPeers() {
  for (int rank = 0; rank < size(); ++rank) {
    const int32_t pid = peer(rank).pid.load();
    pidfds_.push_back(pid == getpid() ? -1 : static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
    if (pidfds_.back() < 0 && pid != getpid() && errno == ESRCH) peer(rank).left.store(1);
  }
}

void SharedSegment::Announce(const CollectiveCall& call) {
  const CollectiveCall::Words words = call.Encode();
  for (size_t i = 0; i < words.size(); ++i) {
    peer(rank()).calls[(round_ + 1) & 1][i].store(words[i], std::memory_order_relaxed);
  }
}

void SharedSegment::Publish() {
  Peer& own = peer(rank());
  own.round.store(++round_, std::memory_order_seq_cst);
  if (own.sleepers.load(std::memory_order_seq_cst) > 0) FutexWakeAll(own.round);
}

bool SharedSegment::Arrived(int rank) const {
  return static_cast<int32_t>(peer(rank).round.load(std::memory_order_acquire) - round_) >= 0;
}

void SharedSegment::Await() {
  for (int offset = 1; offset < size(); ++offset) {
    const int other = (rank() + offset) % size();
    for (int i = 0; i < pauses_ && !Arrived(other); ++i) Pause();
    if (!Arrived(other)) AwaitSlowly(other);
  }
}

void SharedSegment::AwaitSlowly(int rank) {
  const absl::Time deadline = absl::Now() + options_.timeout;
  Peer& other = peer(rank);
  while (!Arrived(rank)) {
    CheckAlive(rank);
    if (absl::Now() > deadline) {
      throw StatusError(absl::DeadlineExceededError(
          absl::StrCat("rank ", rank, " did not come within ", absl::FormatDuration(options_.timeout),
                       "; last collective of each rank: ", ListCalls(Calls()))));
    }
    other.sleepers.fetch_add(1, std::memory_order_seq_cst);
    const uint32_t seen = other.round.load(std::memory_order_seq_cst);
    if (static_cast<int32_t>(seen - round_) < 0 && other.left.load() == 0) FutexWait(other.round, seen, kSlice);
    other.sleepers.fetch_sub(1, std::memory_order_seq_cst);
  }
}

void SharedSegment::CheckAlive(int rank) const {
  if (aborted_.load(std::memory_order_relaxed)) throw StatusError(absl::UnavailableError("aborted"));
  bool gone = peer(rank).left.load() != 0;
  if (!gone && static_cast<size_t>(rank) < pidfds_.size() && pidfds_[static_cast<size_t>(rank)] >= 0) {
    pollfd watch{pidfds_[static_cast<size_t>(rank)], POLLIN, 0};
    gone = poll(&watch, 1, 0) > 0;
  }
  // The rank may have arrived just before it ended.
  if (!gone || Arrived(rank)) return;
  throw StatusError(
      absl::UnavailableError(absl::StrCat("rank ", rank, " (process ", peer(rank).pid.load(),
                                          ") is gone; last collective of each rank: ", ListCalls(Calls()))));
}

std::vector<CollectiveCall> SharedSegment::Calls() const {
  std::vector<CollectiveCall> calls;
  for (int rank = 0; rank < size(); ++rank) {
    CollectiveCall newest;
    for (const auto& slot : peer(rank).calls) {
      const CollectiveCall call = CollectiveCall::Decode({slot[0].load(), slot[1].load(), slot[2].load()});
      if (call.sequence >= newest.sequence) newest = call;
    }
    calls.push_back(newest);
  }
  return calls;
}

bool SharedSegment::AllAgree() const {
  const auto& own = peer(rank()).calls[round_ & 1];
  for (int rank = 0; rank < size(); ++rank) {
    const auto& other = peer(rank).calls[round_ & 1];
    for (int i = 0; i < 3; ++i) {
      if (own[i].load(std::memory_order_relaxed) != other[i].load(std::memory_order_relaxed)) return false;
    }
  }
  return true;
}

}  // namespace composer
