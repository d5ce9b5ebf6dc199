// NoAutocastScope switches off torch's autocast for a scope (loop/autocast.h switches it on for a step).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/autocast_mode.h>

namespace composer {

class NoAutocastScope {
 public:
  explicit NoAutocastScope(at::DeviceType device)
      : device_(device), was_enabled_(at::autocast::is_autocast_enabled(device)) {
    at::autocast::set_autocast_enabled(device_, false);
  }
  ~NoAutocastScope() { at::autocast::set_autocast_enabled(device_, was_enabled_); }
  NoAutocastScope(const NoAutocastScope&) = delete;
  NoAutocastScope& operator=(const NoAutocastScope&) = delete;
  bool was_enabled() const { return was_enabled_; }

 private:
  at::DeviceType device_;
  bool was_enabled_;
};

}  // namespace composer
