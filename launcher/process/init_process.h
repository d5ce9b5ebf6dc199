// Does the duties of process 1 in a container that has no init: reaps orphans (those of `kubectl exec` too) and
// forwards signals to the launcher, which as process 1 itself would never receive a signal that it does not handle.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

namespace composer {

// Must be called from main, in process 1, while it has one thread. Forks. Returns nullopt in the child, which does the
// work in a process group of its own and keeps the terminal. Returns the child's exit code (128 + n for signal n) in
// process 1 once the child has ended. Also returns nullopt when the fork fails (no memory), because a launcher without
// an init is better than no launcher.
std::optional<int> RunUnderInit();

}  // namespace composer
