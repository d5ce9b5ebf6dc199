// A training time out of a job's YAML: every key that takes one reads it here.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "config/config_map.h"
#include "trainer/core/time.h"

namespace composer {

// The key's time, or the fallback's when it is not given; a bare number counts epochs. A bad value goes to the reader as an error, and the result is
// then not to be used.
inline Time ReadTime(ConfigMap& config, absl::string_view key, absl::string_view fallback) {
  const absl::StatusOr<Time> time = ParseTime(config.Time(key, fallback));
  if (time.ok()) return *time;
  config.Reject(key, time.status().message());
  return Time::Epochs(1);
}

}  // namespace composer
