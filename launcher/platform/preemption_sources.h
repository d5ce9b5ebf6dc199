// Those who announce that this machine will be taken away: one interface, with one small class each (docs/spot.md).
// Not thread-safe; PreemptionWatch uses each source from one thread at a time.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "launcher/platform/preemption_notice.h"
#include "launcher/platform/preemption_spec.h"
#include "net/http.h"

namespace composer {

class PreemptionSource {
 public:
  virtual ~PreemptionSource() = default;

  // Returns the source as the user wrote it and its address: "aws at http://169.254.169.254".
  virtual std::string name() const = 0;
  virtual absl::Duration interval() const { return absl::Seconds(2); }
  // Returns how long the source may fail before the user is notified.
  virtual absl::Duration patience() const { return absl::Seconds(5); }
  // Polls once. Returns nullopt if there is no notice so far, or an error if the source could not be asked; a later
  // poll may succeed.
  virtual NoticeOr Look(absl::Time now) = 0;
  // Reports that the checkpoint is durable, so the machine may go now.
  virtual absl::Status Acknowledge() { return absl::OkStatus(); }
};

std::unique_ptr<PreemptionSource> MakePreemptionSource(const PreemptionSpec& spec, std::shared_ptr<Http> http);

}  // namespace composer
