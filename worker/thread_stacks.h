// The stacks of all threads of this process, for people who ask what a rank does or waits for (`composer stacks`).
//
// Each other thread gets a signal (SIGRTMIN + 6), whose handler unwinds the thread's own stack. Calls that this
// interrupts go on, except those that signal(7) lists, which return EINTR as after any signal. The handler is installed
// by the first request: before it, nothing is changed. A thread that blocks the signal or that the kernel does not let
// go has no stack; it is listed all the same, with the kernel's function in which it waits.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace composer {

struct ThreadStack {
  pid_t thread = 0;
  std::string name;           // as the kernel knows it: at most 15 characters
  char state = '?';           // of proc(5): R runs, S sleeps, D waits for a disk, T is stopped
  std::string kernel;         // the kernel's function in which it waits; "" when it runs or the kernel does not say
  std::vector<void*> frames;  // return addresses, innermost first; empty: it has not answered
};

// Returns one element a thread, in the order of their numbers, without the calling one. Threads have `limit` to answer.
// Several threads may call it, one after the other.
std::vector<ThreadStack> TakeStacks(absl::Duration limit);

// Returns a paragraph for each different stack: whose it is, and a line a frame, with the function and its library.
// Threads with the same stack share one, since pools have many. The main thread's comes first.
std::string DescribeStacks(const std::vector<ThreadStack>& stacks);

// Writes `<folder>/stacks-rank-<rank>.txt`, replacing the one of an earlier request, and says so on stderr.
absl::Status WriteStacks(const std::string& folder, int rank);

}  // namespace composer
