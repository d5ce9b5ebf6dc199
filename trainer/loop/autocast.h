// AutocastScope runs the forward pass and the loss in mixed precision: it switches on torch's autocast for a scope.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/autocast_mode.h>

#include "trainer/core/state.h"

namespace composer {

// kFp32 does nothing. kAmpBf16 (and kAmpFp8, for what is not in 8 bits) and kAmpFp16 make matrix products in that type
// on this device type, on a CPU too; the weight cache lives for the scope.
class AutocastScope {
 public:
  AutocastScope(Precision precision, at::DeviceType device) : device_(device), active_(precision != Precision::kFp32) {
    if (!active_) return;
    was_enabled_ = at::autocast::is_autocast_enabled(device_);
    at::autocast::set_autocast_enabled(device_, true);
    at::autocast::set_autocast_dtype(device_, precision == Precision::kAmpFp16 ? at::kHalf : at::kBFloat16);
    at::autocast::increment_nesting();
  }
  ~AutocastScope() {
    if (!active_) return;
    if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(device_, was_enabled_);
  }
  AutocastScope(const AutocastScope&) = delete;
  AutocastScope& operator=(const AutocastScope&) = delete;

 private:
  at::DeviceType device_;
  bool active_;
  bool was_enabled_ = false;
};

}  // namespace composer
