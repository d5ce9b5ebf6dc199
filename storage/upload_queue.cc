// SPDX-License-Identifier: Apache-2.0
#include "storage/upload_queue.h"

#include <algorithm>
#include <deque>
#include <exception>
#include <set>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "base/file.h"
#include "base/status_macros.h"
#include "storage/mapped_file.h"

namespace composer {
namespace {

constexpr size_t kNamesShown = 20;

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

class UploadQueue::Impl {
 public:
  Impl(std::shared_ptr<ObjectStore> store, UploadQueueOptions options, int threads)
      : store_(std::move(store)), options_(options), threads_(threads) {}

  absl::Status Add(Upload upload);
  absl::Status TakeFailures();
  absl::Status Flush(absl::Duration timeout);
  // Runs until the queue ends.
  void Work();
  // Gives the store up when a thread still uploads after `limit`.
  void End(absl::Duration limit);

 private:
  bool HasWork() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  Upload TakeNext() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  std::string NamesLeft() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status Put(const Upload& upload);
  absl::Status PutOnce(const Upload& upload);
  // Returns false when the queue ends.
  bool Wait(absl::Duration delay);

  const std::shared_ptr<ObjectStore> store_;
  const UploadQueueOptions options_;
  absl::Mutex mutex_;
  std::deque<Upload> waiting_ ABSL_GUARDED_BY(mutex_);
  std::set<std::string> under_way_ ABSL_GUARDED_BY(mutex_);  // keys
  absl::Status first_failure_ ABSL_GUARDED_BY(mutex_);
  int failures_ ABSL_GUARDED_BY(mutex_) = 0;
  bool ends_ ABSL_GUARDED_BY(mutex_) = false;
  int threads_ ABSL_GUARDED_BY(mutex_);  // threads that have not left
};

UploadQueue::UploadQueue(std::shared_ptr<ObjectStore> store, UploadQueueOptions options)
    : impl_(std::make_unique<Impl>(std::move(store), options, std::max(1, options.threads))),
      leave_limit_(options.leave_limit) {
  for (int i = 0; i < std::max(1, options.threads); ++i) threads_.emplace_back([impl = impl_.get()] { impl->Work(); });
}

UploadQueue::~UploadQueue() {
  impl_->End(leave_limit_);
  for (std::thread& thread : threads_) thread.join();
}

absl::Status UploadQueue::Add(std::string key, std::string staged) {
  return impl_->Add({std::move(key), std::move(staged)});
}
absl::Status UploadQueue::TakeFailures() { return impl_->TakeFailures(); }
absl::Status UploadQueue::Flush(absl::Duration timeout) { return impl_->Flush(timeout); }

void UploadQueue::Impl::End(absl::Duration limit) {
  absl::MutexLock lock(&mutex_);
  ends_ = true;
  const auto all_left = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return threads_ == 0; };
  if (!mutex_.AwaitWithTimeout(absl::Condition(&all_left), limit)) store_->GiveUp();
  for (const Upload& upload : waiting_) RemoveFile(upload.staged).IgnoreError();
  waiting_.clear();
}

absl::Status UploadQueue::Impl::Add(Upload upload) {
  std::string superseded;
  absl::Status status;
  {
    absl::MutexLock lock(&mutex_);
    const auto same =
        std::find_if(waiting_.begin(), waiting_.end(), [&](const Upload& u) { return u.key == upload.key; });
    if (same != waiting_.end()) {
      superseded = std::exchange(same->staged, std::move(upload.staged));
    } else if (waiting_.size() >= options_.max_waiting) {
      status = absl::ResourceExhaustedError(
          absl::StrCat(store_->Location(upload.key), " is not uploaded: ", waiting_.size(), " files wait already"));
      superseded = std::move(upload.staged);
    } else {
      waiting_.push_back(std::move(upload));
    }
  }
  if (!superseded.empty()) RemoveFile(superseded).IgnoreError();
  return status;
}

absl::Status UploadQueue::Impl::TakeFailures() {
  absl::MutexLock lock(&mutex_);
  const int count = std::exchange(failures_, 0);
  absl::Status first = std::exchange(first_failure_, absl::OkStatus());
  if (count <= 1) return first;
  return absl::Status(first.code(), absl::StrCat(count, " uploads failed, the first: ", first.message()));
}

absl::Status UploadQueue::Impl::Flush(absl::Duration timeout) {
  absl::MutexLock lock(&mutex_);
  const auto idle = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return waiting_.empty() && under_way_.empty(); };
  if (mutex_.AwaitWithTimeout(absl::Condition(&idle), timeout)) return absl::OkStatus();
  return absl::DeadlineExceededError(absl::StrCat(waiting_.size() + under_way_.size(), " files were not uploaded to ",
                                                  store_->Location(""), " within ", absl::FormatDuration(timeout),
                                                  " and are lost there: ", NamesLeft()));
}

std::string UploadQueue::Impl::NamesLeft() const {
  std::vector<std::string> names(under_way_.begin(), under_way_.end());
  for (const Upload& upload : waiting_) names.push_back(upload.key);
  const size_t shown = std::min(names.size(), kNamesShown);
  const std::string list = absl::StrJoin(names.begin(), names.begin() + static_cast<int64_t>(shown), ", ");
  return shown == names.size() ? list : absl::StrCat(list, " and ", names.size() - shown, " more");
}

bool UploadQueue::Impl::HasWork() const {
  return std::any_of(waiting_.begin(), waiting_.end(),
                     [this](const Upload& u) ABSL_NO_THREAD_SAFETY_ANALYSIS { return !under_way_.contains(u.key); });
}

UploadQueue::Upload UploadQueue::Impl::TakeNext() {
  const auto next =
      std::find_if(waiting_.begin(), waiting_.end(),
                   [this](const Upload& u) ABSL_NO_THREAD_SAFETY_ANALYSIS { return !under_way_.contains(u.key); });
  Upload upload = std::move(*next);
  waiting_.erase(next);
  under_way_.insert(upload.key);
  return upload;
}

void UploadQueue::Impl::Work() {
  while (true) {
    Upload upload;
    {
      absl::MutexLock lock(&mutex_);
      const auto ready = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return ends_ || HasWork(); };
      mutex_.Await(absl::Condition(&ready));
      if (ends_) {
        --threads_;
        return;
      }
      upload = TakeNext();
    }
    const absl::Status status = Put(upload);
    RemoveFile(upload.staged).IgnoreError();
    absl::MutexLock lock(&mutex_);
    under_way_.erase(upload.key);
    if (!status.ok() && failures_++ == 0) first_failure_ = Annotate(status, store_->Location(upload.key));
  }
}

absl::Status UploadQueue::Impl::Put(const Upload& upload) {
  const absl::Time began = absl::Now();
  for (int tries = 1;; ++tries) {
    const absl::Status status = PutOnce(upload);
    if (status.ok() || !WorthRetrying(status)) return status;
    const auto delay = DelayBeforeRetry(options_.retry, tries, absl::Now() - began, UniformRandom());
    if (!delay.has_value() || !Wait(*delay)) return status;
  }
}

absl::Status UploadQueue::Impl::PutOnce(const Upload& upload) try {
  // Its pages belong to the page cache: a large file takes no memory from the training.
  ASSIGN_OR_RETURN(const auto file, MappedFile::Open(upload.staged));
  return store_->Put(upload.key, {file->bytes()});
} catch (const std::exception& error) {  // out of memory
  return absl::InternalError(error.what());
}

bool UploadQueue::Impl::Wait(absl::Duration delay) {
  absl::MutexLock lock(&mutex_);
  return !mutex_.AwaitWithTimeout(absl::Condition(&ends_), delay);
}

}  // namespace composer
