// Tells the thread sanitizer what Debian's Abseil orders: the library is not instrumented, so that without this each
// access under an absl::Mutex looks like a race. cmake/ThreadSanitizer.cmake makes the linker send our calls here
// (--wrap). Conditions that Abseil evaluates in another thread have a frame of its library; tools/tsan.supp leaves
// those out.
// SPDX-License-Identifier: Apache-2.0
#include <sanitizer/tsan_interface.h>

#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"

#define REAL(symbol) __asm__("__real__" symbol)
#define WRAP(symbol) __asm__("__wrap__" symbol)
#define LOCK "ZN4absl7debian35Mutex4LockEv"
#define UNLOCK "ZN4absl7debian35Mutex6UnlockEv"
#define LOCK_WHEN "ZN4absl7debian35Mutex8LockWhenERKNS0_9ConditionE"
#define AWAIT "ZN4absl7debian35Mutex5AwaitERKNS0_9ConditionE"
#define AWAIT_TIMEOUT "ZN4absl7debian35Mutex16AwaitWithTimeoutERKNS0_9ConditionENS0_8DurationE"
#define AWAIT_DEADLINE "ZN4absl7debian35Mutex17AwaitWithDeadlineERKNS0_9ConditionENS0_4TimeE"
#define NOTIFY "ZN4absl7debian312Notification6NotifyEv"
#define WAIT "ZNK4absl7debian312Notification19WaitForNotificationEv"
#define WAIT_TIMEOUT "ZNK4absl7debian312Notification30WaitForNotificationWithTimeoutENS0_8DurationE"

extern "C" {

void RealLock(absl::Mutex* mutex) REAL(LOCK);
void RealUnlock(absl::Mutex* mutex) REAL(UNLOCK);
void RealLockWhen(absl::Mutex* mutex, const absl::Condition& condition) REAL(LOCK_WHEN);
void RealAwait(absl::Mutex* mutex, const absl::Condition& condition) REAL(AWAIT);
bool RealAwaitTimeout(absl::Mutex* mutex, const absl::Condition& condition, absl::Duration timeout) REAL(AWAIT_TIMEOUT);
bool RealAwaitDeadline(absl::Mutex* mutex, const absl::Condition& condition, absl::Time deadline) REAL(AWAIT_DEADLINE);
void RealNotify(absl::Notification* notification) REAL(NOTIFY);
void RealWait(const absl::Notification* notification) REAL(WAIT);
bool RealWaitTimeout(const absl::Notification* notification, absl::Duration timeout) REAL(WAIT_TIMEOUT);

void WrapLock(absl::Mutex* mutex) WRAP(LOCK);
void WrapUnlock(absl::Mutex* mutex) WRAP(UNLOCK);
void WrapLockWhen(absl::Mutex* mutex, const absl::Condition& condition) WRAP(LOCK_WHEN);
void WrapAwait(absl::Mutex* mutex, const absl::Condition& condition) WRAP(AWAIT);
bool WrapAwaitTimeout(absl::Mutex* mutex, const absl::Condition& condition, absl::Duration timeout) WRAP(AWAIT_TIMEOUT);
bool WrapAwaitDeadline(absl::Mutex* mutex, const absl::Condition& condition, absl::Time deadline) WRAP(AWAIT_DEADLINE);
void WrapNotify(absl::Notification* notification) WRAP(NOTIFY);
void WrapWait(const absl::Notification* notification) WRAP(WAIT);
bool WrapWaitTimeout(const absl::Notification* notification, absl::Duration timeout) WRAP(WAIT_TIMEOUT);

void WrapLock(absl::Mutex* mutex) {
  RealLock(mutex);
  __tsan_acquire(mutex);
}

void WrapUnlock(absl::Mutex* mutex) {
  __tsan_release(mutex);
  RealUnlock(mutex);
}

void WrapLockWhen(absl::Mutex* mutex, const absl::Condition& condition) {
  RealLockWhen(mutex, condition);
  __tsan_acquire(mutex);
}

void WrapAwait(absl::Mutex* mutex, const absl::Condition& condition) {
  __tsan_release(mutex);
  RealAwait(mutex, condition);
  __tsan_acquire(mutex);
}

bool WrapAwaitTimeout(absl::Mutex* mutex, const absl::Condition& condition, absl::Duration timeout) {
  __tsan_release(mutex);
  const bool met = RealAwaitTimeout(mutex, condition, timeout);
  __tsan_acquire(mutex);
  return met;
}

bool WrapAwaitDeadline(absl::Mutex* mutex, const absl::Condition& condition, absl::Time deadline) {
  __tsan_release(mutex);
  const bool met = RealAwaitDeadline(mutex, condition, deadline);
  __tsan_acquire(mutex);
  return met;
}

void WrapNotify(absl::Notification* notification) {
  __tsan_release(notification);
  RealNotify(notification);
}

void WrapWait(const absl::Notification* notification) {
  RealWait(notification);
  __tsan_acquire(const_cast<absl::Notification*>(notification));
}

bool WrapWaitTimeout(const absl::Notification* notification, absl::Duration timeout) {
  const bool notified = RealWaitTimeout(notification, timeout);
  if (notified) __tsan_acquire(const_cast<absl::Notification*>(notification));
  return notified;
}

}  // extern "C"
