// Reads training times from a job's YAML: every key that takes one is read here.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/time.h"
#include "config/config_map.h"

namespace composer {

// Returns the key's time, or the fallback's when it is not given; a bare number counts epochs. A bad value goes to the
// reader as an error, and the result must then not be used.
inline Time ReadTime(ConfigMap& config, absl::string_view key, absl::string_view fallback) {
  const absl::StatusOr<Time> time = ParseTime(config.Time(key, fallback));
  if (time.ok()) return *time;
  config.Reject(key, time.status().message());
  return Time::Epochs(1);
}

// Returns how often a callback or logger acts: at least one batch or epoch; a bare number counts batches.
inline Time ReadInterval(ConfigMap& config, absl::string_view key, absl::string_view fallback) {
  const absl::StatusOr<Time> time = ParseTime(config.Time(key, fallback), TimeUnit::kBatch);
  const bool counted = time.ok() && (time->unit() == TimeUnit::kBatch || time->unit() == TimeUnit::kEpoch);
  if (counted && time->count() >= 1) return *time;
  config.Reject(key, !time.ok()
                         ? std::string(time.status().message())
                         : absl::StrCat("must be at least one batch (ba) or epoch (ep), got ", time->ToString()));
  return Time::Batches(1);
}

}  // namespace composer
