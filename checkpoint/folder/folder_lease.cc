// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/folder/folder_lease.h"

#include <pthread.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/printable.h"
#include "base/status_macros.h"

namespace composer {
namespace {

constexpr int kMostRaces = 100;  // lost in a row to others that take the folder; then something else is wrong
constexpr absl::Duration kReleasePatience = absl::Seconds(1);

std::string LeaseTime(const Clock& clock) {
  return absl::FormatTime("%Y-%m-%dT%H:%M:%SZ", clock.Now(), absl::UTCTimeZone());
}

// Returns the numbers of the existing leases, ascending.
absl::StatusOr<std::vector<int64_t>> LeaseNumbers(ObjectStore& store) {
  ASSIGN_OR_RETURN(const std::vector<std::string> keys, store.List(kLeaseFolder));
  std::vector<int64_t> numbers;
  for (const std::string& key : keys) {
    if (const auto number = LeaseNumber(key)) numbers.push_back(*number);
  }
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

struct NewestLease {
  int64_t number = 0;  // 0: none
  std::string text;
  std::optional<LeaseRecord> record;
};

absl::StatusOr<NewestLease> ReadNewestLease(ObjectStore& store) {
  for (int races = 0; races < kMostRaces; ++races) {
    ASSIGN_OR_RETURN(const std::vector<int64_t> numbers, LeaseNumbers(store));
    if (numbers.empty()) return NewestLease{};
    NewestLease newest{numbers.back(), "", std::nullopt};
    absl::StatusOr<std::string> text = GetObject(store, LeaseKey(newest.number), kMaxLeaseBytes);
    if (absl::IsNotFound(text.status())) continue;  // the next lease's holder has deleted it meanwhile
    if (!text.ok() && !absl::IsResourceExhausted(text.status()) && !absl::IsOutOfRange(text.status()))
      return text.status();
    newest.text = text.ok() ? *std::move(text) : std::string(text.status().message());
    if (absl::StatusOr<LeaseRecord> record = ParseLease(newest.text); record.ok()) newest.record = *std::move(record);
    return newest;
  }
  return absl::UnavailableError(absl::StrCat(store.Location(kLeaseFolder), ": its leases do not hold still"));
}

// This is what a launch sees of the lease in force while it checks it repeatedly.
class LeaseWatch {
 public:
  explicit LeaseWatch(const Clock& clock) : clock_(clock), since_(clock.Now()) {}

  LeaseSight Saw(const NewestLease& newest) {
    const std::string mark = absl::StrCat(newest.number, "\n", newest.text);
    const bool changed = looked_ && mark != mark_;
    if (changed) since_ = clock_.Now();
    looked_ = true;
    mark_ = mark;
    return {newest.number > 0, newest.record, changed, clock_.Now() - since_};
  }

 private:
  const Clock& clock_;
  absl::Time since_;
  bool looked_ = false;
  std::string mark_;
};

void TellWaiting(const NewestLease& newest, absl::string_view location) {
  LOG(WARNING) << location << " was last used by "
               << (newest.record ? absl::StrCat("run \"", Printable(newest.record->holder.run_name), "\" (",
                                                Printable(newest.record->holder.process), ")")
                                 : "a program that left no readable lease")
               << ", which has not said that it ended: waiting to see whether it still runs, "
               << absl::FormatDuration(kLeaseSilence) << " at most";
}

}  // namespace

absl::StatusOr<std::unique_ptr<FolderLease>> FolderLease::Acquire(std::shared_ptr<ObjectStore> store, LeaseHolder me,
                                                                  const FolderLeaseOptions& options) {
  const std::string location = store->Location("");
  LeaseWatch watch(*options.clock);
  bool told = false;
  for (int races = 0; races < kMostRaces;) {
    ASSIGN_OR_RETURN(const NewestLease newest, ReadNewestLease(*store));
    const LeaseDecision decision = DecideLease(me, watch.Saw(newest), location);
    if (decision.action == LeaseAction::kRefuse) return decision.refusal;
    if (decision.action == LeaseAction::kWatch) {
      if (!std::exchange(told, true)) TellWaiting(newest, location);
      options.clock->SleepFor(options.look_interval);
      continue;
    }
    const bool shared = decision.action == LeaseAction::kShare;
    LeaseRecord record = shared ? *newest.record : NextLease(me, newest.record);
    const int64_t number = shared ? newest.number : newest.number + 1;
    if (number > kMaxLeaseNumber)
      return absl::FailedPreconditionError(
          absl::StrCat(store->Location(LeaseKey(newest.number)), " is the last lease"));
    if (!shared) {
      record.renewed_at = LeaseTime(*options.clock);
      const absl::Status created = store->PutIfAbsent(LeaseKey(number), {SerializeLease(record)});
      if (absl::IsAlreadyExists(created)) {
        ++races;
        continue;
      }
      RETURN_IF_ERROR(created);
    }
    return std::unique_ptr<FolderLease>(new FolderLease(std::move(store), options, number, std::move(record), shared));
  }
  return absl::UnavailableError(absl::StrCat(location, ": ", kMostRaces, " times another launch took it first"));
}

FolderLease::FolderLease(std::shared_ptr<ObjectStore> store, const FolderLeaseOptions& options, int64_t number,
                         LeaseRecord record, bool shared)
    : store_(std::move(store)), clock_(*options.clock), number_(number), shared_(shared), record_(std::move(record)) {
  if (options.renews && !shared_) thread_ = std::thread([this] { Work(); });
}

FolderLease::~FolderLease() {
  {
    const absl::MutexLock lock(&thread_mutex_);
    stop_ = true;
  }
  if (thread_.joinable()) thread_.join();
}

bool FolderLease::WaitToRenew() {
  const absl::MutexLock lock(&thread_mutex_);
  renewing_ = !thread_mutex_.AwaitWithTimeout(absl::Condition(&stop_), kLeaseInterval);
  return renewing_;
}

void FolderLease::Work() {
  pthread_setname_np(pthread_self(), "lease");
  bool told = false;
  while (WaitToRenew()) {
    const absl::Status renewed = Renew();
    if (!renewed.ok() && !std::exchange(told, true)) LOG(WARNING) << "the lease is not renewed: " << renewed.message();
    if (renewed.ok()) told = false;
    const absl::MutexLock lock(&thread_mutex_);
    renewing_ = false;
  }
}

absl::Status FolderLease::Check() {
  const absl::MutexLock lock(&mutex_);
  return CheckLocked();
}

absl::Status FolderLease::CheckLocked() {
  RETURN_IF_ERROR(lost_);
  ASSIGN_OR_RETURN(const std::vector<int64_t> numbers, LeaseNumbers(*store_));
  there_ = std::binary_search(numbers.begin(), numbers.end(), number_);
  if (numbers.empty() || numbers.back() <= number_) return absl::OkStatus();
  ASSIGN_OR_RETURN(const NewestLease newest, ReadNewestLease(*store_));
  return lost_ = FencedBy(record_.holder, newest.record, store_->Location(""));
}

absl::Status FolderLease::Renew() {
  const absl::MutexLock lock(&mutex_);
  const absl::Status renewed = RenewLocked();
  answers_ = renewed.ok();
  return renewed;
}

absl::Status FolderLease::RenewLocked() {
  RETURN_IF_ERROR(CheckLocked());
  ++record_.renewals;
  RETURN_IF_ERROR(WriteLocked());
  ASSIGN_OR_RETURN(const std::vector<int64_t> numbers, LeaseNumbers(*store_));
  for (const int64_t number : numbers) {
    if (number < number_) RETURN_IF_ERROR(store_->Delete(LeaseKey(number)));
  }
  return absl::OkStatus();
}

absl::Status FolderLease::WriteLocked() {
  record_.renewed_at = LeaseTime(clock_);
  return store_->Put(LeaseKey(number_), {SerializeLease(record_)});
}

void FolderLease::Release() {
  {
    const absl::MutexLock lock(&thread_mutex_);
    stop_ = true;
    const auto idle = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(thread_mutex_) { return !renewing_; };
    // A renewal that takes longer is waiting for a store that does not answer.
    if (!thread_mutex_.AwaitWithTimeout(absl::Condition(&idle), kReleasePatience)) return;
  }
  const absl::MutexLock lock(&mutex_);
  if (!shared_ && answers_ && CheckLocked().ok() && there_) {
    record_.released = true;
    const absl::Status written = WriteLocked();
    if (!written.ok()) LOG(WARNING) << "the lease is not released: " << written.message();
  }
  lost_.Update(absl::FailedPreconditionError(absl::StrCat("the lease of ", store_->Location(""), " is released")));
}

}  // namespace composer
