// A part of a construction without memory (trainer/init/deferred_ops.h) whose tensors have memory at once.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/impl/LocalDispatchKeySet.h>

namespace composer {

// Nothing is deferred within this scope, for tensors that must have memory at once, like a file's.
class UndeferredScope {
 public:
  UndeferredScope() : exclude_(c10::DispatchKey::DeferredInit) {}

 private:
  c10::impl::ExcludeDispatchKeyGuard exclude_;
};

}  // namespace composer
