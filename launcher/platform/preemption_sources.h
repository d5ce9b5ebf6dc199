// Those who announce that this machine will be taken away: one interface, with one small class each (docs/spot.md).
// Not thread-safe; PreemptionWatch uses each source from one thread at a time.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "launcher/platform/preemption_notice.h"
#include "launcher/platform/preemption_spec.h"

namespace composer {

struct MetadataRequest {
  std::string method = "GET";
  std::string url;
  std::vector<std::string> headers;  // "Name: value"
  std::string body;
};
struct HttpReply {
  int code = 0;
  std::string body;
};
// Must be bounded in time and size. Returns kUnavailable if there is no answer.
using HttpFetch = std::function<absl::StatusOr<HttpReply>(const MetadataRequest&)>;

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

// `fetch` is copied into the sources that need it.
std::unique_ptr<PreemptionSource> MakePreemptionSource(const PreemptionSpec& spec, const HttpFetch& fetch);

}  // namespace composer
