// The duties of process 1 in a container, where no init does them: reap what becomes orphaned (also processes of
// `kubectl exec`), and hand signals to the launcher, which as process 1 itself would be deaf to those it does not handle.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

namespace composer {

// Call from main while the process has one thread, when it is process 1. Forks: in the child, which does the work in a
// process group of its own and keeps the terminal, returns nullopt; in process 1 returns the child's exit code (128 + n for
// signal n) when it has ended. Without a fork (no memory) it returns nullopt too: better a launcher without an init than
// none.
std::optional<int> RunUnderInit();

}  // namespace composer
