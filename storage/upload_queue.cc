// SPDX-License-Identifier: Apache-2.0
#include "storage/upload_queue.h"

#include <algorithm>
#include <exception>
#include <utility>

#include "absl/random/random.h"
#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/status_macros.h"

namespace composer {
namespace {

constexpr int64_t kMaxFileBytes = int64_t{16} << 30;

}  // namespace

bool WorthRetrying(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kAborted:
    case absl::StatusCode::kInternal:
    case absl::StatusCode::kUnknown:
    case absl::StatusCode::kResourceExhausted:
      return true;
    default:
      return false;
  }
}

absl::Duration UploadDelay(int next, absl::Duration first_delay, double random) {
  constexpr int kMaxDoublings = 16;
  const absl::Duration base =
      std::min(first_delay * (int64_t{1} << std::clamp(next - 2, 0, kMaxDoublings)), absl::Minutes(1));
  return base + base * (random / 2);
}

UploadQueue::UploadQueue(std::shared_ptr<ObjectStore> store, UploadQueueOptions options)
    : store_(std::move(store)), options_(options) {
  for (int i = 0; i < std::max(1, options_.threads); ++i) threads_.emplace_back([this] { Work(); });
}

UploadQueue::~UploadQueue() {
  {
    absl::MutexLock lock(&mutex_);
    ends_ = true;
  }
  for (std::thread& thread : threads_) thread.join();
  absl::MutexLock lock(&mutex_);
  for (const Upload& upload : waiting_) RemoveFile(upload.staged).IgnoreError();
}

absl::Status UploadQueue::Add(std::string key, std::string staged) {
  std::string superseded;
  absl::Status status;
  {
    absl::MutexLock lock(&mutex_);
    const auto same = std::find_if(waiting_.begin(), waiting_.end(), [&](const Upload& u) { return u.key == key; });
    if (same != waiting_.end()) {
      superseded = std::exchange(same->staged, std::move(staged));
    } else if (waiting_.size() >= options_.max_waiting) {
      status = absl::ResourceExhaustedError(
          absl::StrCat(store_->Location(key), " is not uploaded: ", waiting_.size(), " files wait already"));
      superseded = std::move(staged);
    } else {
      waiting_.push_back({std::move(key), std::move(staged)});
    }
  }
  if (!superseded.empty()) RemoveFile(superseded).IgnoreError();
  return status;
}

absl::Status UploadQueue::TakeFailures() {
  absl::MutexLock lock(&mutex_);
  const int count = std::exchange(failures_, 0);
  absl::Status first = std::exchange(first_failure_, absl::OkStatus());
  if (count <= 1) return first;
  return absl::Status(first.code(), absl::StrCat(count, " uploads failed, the first: ", first.message()));
}

absl::Status UploadQueue::Flush(absl::Duration timeout) {
  absl::MutexLock lock(&mutex_);
  const auto idle = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return waiting_.empty() && under_way_.empty(); };
  if (mutex_.AwaitWithTimeout(absl::Condition(&idle), timeout)) return absl::OkStatus();
  return absl::DeadlineExceededError(absl::StrCat(waiting_.size() + under_way_.size(), " files were not uploaded to ",
                                                  store_->Location(""), " within ", absl::FormatDuration(timeout)));
}

bool UploadQueue::HasWork() const {
  return std::any_of(waiting_.begin(), waiting_.end(),
                     [this](const Upload& u) ABSL_NO_THREAD_SAFETY_ANALYSIS { return !under_way_.contains(u.key); });
}

UploadQueue::Upload UploadQueue::TakeNext() {
  const auto next =
      std::find_if(waiting_.begin(), waiting_.end(),
                   [this](const Upload& u) ABSL_NO_THREAD_SAFETY_ANALYSIS { return !under_way_.contains(u.key); });
  Upload upload = std::move(*next);
  waiting_.erase(next);
  under_way_.insert(upload.key);
  return upload;
}

void UploadQueue::Work() {
  while (true) {
    Upload upload;
    {
      absl::MutexLock lock(&mutex_);
      const auto ready = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return ends_ || HasWork(); };
      mutex_.Await(absl::Condition(&ready));
      if (ends_) return;
      upload = TakeNext();
    }
    const absl::Status status = Put(upload);
    RemoveFile(upload.staged).IgnoreError();
    absl::MutexLock lock(&mutex_);
    under_way_.erase(upload.key);
    if (!status.ok() && failures_++ == 0) first_failure_ = Annotate(status, store_->Location(upload.key));
  }
}

absl::Status UploadQueue::Put(const Upload& upload) {
  absl::BitGen random;
  for (int attempt = 1;; ++attempt) {
    const absl::Status status = PutOnce(upload);
    if (status.ok() || attempt >= options_.attempts || !WorthRetrying(status)) return status;
    if (!Wait(UploadDelay(attempt + 1, options_.first_delay, absl::Uniform(random, 0.0, 1.0)))) return status;
  }
}

absl::Status UploadQueue::PutOnce(const Upload& upload) try {
  ASSIGN_OR_RETURN(const std::string content, ReadFile(upload.staged, kMaxFileBytes));
  return store_->Put(upload.key, {content});
} catch (const std::exception& error) {  // no memory for the file
  return absl::InternalError(error.what());
}

bool UploadQueue::Wait(absl::Duration delay) {
  absl::MutexLock lock(&mutex_);
  return !mutex_.AwaitWithTimeout(absl::Condition(&ends_), delay);
}

}  // namespace composer
