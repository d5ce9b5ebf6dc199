// How long a process has waited for a processor while it could run, as the kernel's scheduler counts it. On a crowded
// machine this tells a process that gets no processor from one that waits for something else.
//
// Source: /proc/<pid>/task/<tid>/schedstat, "<ns on a processor> <ns runnable without one> <time slices>". The kernel
// adds a wait to the second number only once it is over; the thread's state tells of one that still lasts. Where the
// kernel keeps no such numbers (CONFIG_SCHED_INFO), no process ever seems to have waited.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <map>
#include <optional>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace composer {

// Of one thread, since it began.
struct ThreadTimes {
  absl::Duration ran, waited;
  bool runnable = false;  // at present: it runs or waits for a processor

  friend bool operator==(const ThreadTimes&, const ThreadTimes&) = default;
};
using ThreadTimesById = std::map<pid_t, ThreadTimes>;

// Returns the times of all threads of a process; empty when it is gone or the kernel does not report them.
ThreadTimesById ReadThreadTimes(pid_t pid);

// Returns the two times in the text of a schedstat; nullopt for any other text. Pure.
std::optional<ThreadTimes> ParseSchedstat(absl::string_view text);

// Returns how long the thread that waited longest for a processor did so between two looks that lie `between` apart, 0
// to `between`. A thread that was runnable both times, and neither ran nor ended a wait, waited for all of it. Pure.
absl::Duration LongestWait(const ThreadTimesById& before, const ThreadTimesById& now, absl::Duration between);

}  // namespace composer
