// Who announces that this machine will be taken away: one interface, one small class each (research: launch.md 4.4).
// Threads: one at a time for each source; PreemptionWatch sees to it.
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
// Bounded in time and size. kUnavailable: no answer.
using HttpFetch = std::function<absl::StatusOr<HttpReply>(const MetadataRequest&)>;

class PreemptionSource {
 public:
  virtual ~PreemptionSource() = default;

  // As the user wrote it, with where it is asked: "aws at http://169.254.169.254".
  virtual std::string name() const = 0;
  virtual absl::Duration interval() const { return absl::Seconds(2); }
  // How long it may fail before the user hears of it.
  virtual absl::Duration patience() const { return absl::Seconds(5); }
  // One look. nullopt: no notice so far. An error: it could not be asked; the next look may go well.
  virtual NoticeOr Look(absl::Time now) = 0;
  // The checkpoint is durable: the machine may go now.
  virtual absl::Status Acknowledge() { return absl::OkStatus(); }
};

// `fetch` is copied into the sources that need it.
std::unique_ptr<PreemptionSource> MakePreemptionSource(const PreemptionSpec& spec, const HttpFetch& fetch);

}  // namespace composer
