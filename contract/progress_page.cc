// SPDX-License-Identifier: Apache-2.0
#include "contract/progress_page.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <limits>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/file.h"
#include "base/status_macros.h"

namespace composer {

struct ProgressPage::Layout {
  std::atomic<uint64_t> magic;
  std::atomic<int64_t> batch;
  std::atomic<int64_t> samples;
  std::atomic<uint64_t> loss_bits;
  std::atomic<uint64_t> data_wait_bits;
  std::atomic<int64_t> first_step_unix_micros;
  std::atomic<int64_t> heartbeat;
  std::atomic<int32_t> phase;
};

namespace {

constexpr uint64_t kMagic = 0x31454741504d4f43;  // "COMPAGE1"
constexpr size_t kPageBytes = 4096;
static_assert(std::atomic<int64_t>::is_always_lock_free && std::atomic<int32_t>::is_always_lock_free);

}  // namespace

absl::StatusOr<ProgressPage> ProgressPage::Map(const std::string& path, int open_flags) {
  const int fd = open(path.c_str(), open_flags | O_RDWR | O_CLOEXEC, 0600);
  if (fd < 0) return ErrnoStatus(errno, "open progress page", path);
  const absl::Cleanup close_fd = [fd] { close(fd); };
  // The space is reserved, not only sized: the first store into a page that a full disk cannot hold would be a SIGBUS.
  if (const int error = (open_flags & O_CREAT) != 0 ? posix_fallocate(fd, 0, kPageBytes) : 0; error != 0)
    return ErrnoStatus(error, "size progress page", path);
  struct stat info;
  if (fstat(fd, &info) != 0) return ErrnoStatus(errno, "stat progress page", path);
  if (info.st_size != kPageBytes)
    return absl::InvalidArgumentError(absl::StrCat(path, " is not a progress page: wrong size"));
  void* memory = mmap(nullptr, kPageBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) return ErrnoStatus(errno, "map progress page", path);
  return ProgressPage(static_cast<Layout*>(memory));
}

absl::StatusOr<ProgressPage> ProgressPage::Create(const std::string& path) {
  RETURN_IF_ERROR(RemoveFile(path));  // a process that still maps an older page must not write into this one
  ASSIGN_OR_RETURN(ProgressPage page, Map(path, O_CREAT | O_EXCL));
  page.layout_->loss_bits = page.layout_->data_wait_bits =
      std::bit_cast<uint64_t>(std::numeric_limits<double>::quiet_NaN());
  page.layout_->magic = kMagic;
  return page;
}

absl::StatusOr<ProgressPage> ProgressPage::Open(const std::string& path) {
  ASSIGN_OR_RETURN(ProgressPage page, Map(path, 0));
  if (page.layout_->magic != kMagic) return absl::InvalidArgumentError(absl::StrCat(path, " is not a progress page"));
  return page;
}

ProgressPage::ProgressPage(ProgressPage&& other) noexcept : layout_(std::exchange(other.layout_, nullptr)) {}

ProgressPage& ProgressPage::operator=(ProgressPage&& other) noexcept {
  std::swap(layout_, other.layout_);
  return *this;
}

ProgressPage::~ProgressPage() {
  if (layout_ != nullptr) munmap(layout_, kPageBytes);
}

void ProgressPage::SetStart(int64_t batch, int64_t samples) {
  layout_->samples.store(samples, std::memory_order_relaxed);
  layout_->batch.store(batch, std::memory_order_release);
}

void ProgressPage::RecordStep(int64_t batch, int64_t samples, double loss, double data_wait) {
  layout_->loss_bits.store(std::bit_cast<uint64_t>(loss), std::memory_order_relaxed);
  layout_->data_wait_bits.store(std::bit_cast<uint64_t>(data_wait), std::memory_order_relaxed);
  layout_->samples.store(samples, std::memory_order_relaxed);
  layout_->batch.store(batch, std::memory_order_release);
  if (layout_->first_step_unix_micros.load(std::memory_order_relaxed) == 0) {
    layout_->first_step_unix_micros.store(absl::ToUnixMicros(absl::Now()), std::memory_order_relaxed);
  }
}

void ProgressPage::SetPhase(int32_t phase) { layout_->phase.store(phase, std::memory_order_relaxed); }

void ProgressPage::Beat() { layout_->heartbeat.fetch_add(1, std::memory_order_relaxed); }

ProgressSnapshot ProgressPage::Read() const {
  ProgressSnapshot result;
  result.batch = layout_->batch.load(std::memory_order_acquire);
  result.samples = layout_->samples.load(std::memory_order_relaxed);
  result.loss = std::bit_cast<double>(layout_->loss_bits.load(std::memory_order_relaxed));
  result.data_wait = std::bit_cast<double>(layout_->data_wait_bits.load(std::memory_order_relaxed));
  result.first_step_unix_micros = layout_->first_step_unix_micros.load(std::memory_order_relaxed);
  result.heartbeat = layout_->heartbeat.load(std::memory_order_relaxed);
  result.phase = layout_->phase.load(std::memory_order_relaxed);
  return result;
}

}  // namespace composer
