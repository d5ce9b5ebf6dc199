// What clouds say before they take a machine away, as text from their metadata services: pure parsers. Addresses, headers
// and polling are in preemption_sources.h.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace composer {

struct Notice {
  std::string what;                              // one line: "AWS will terminate this spot instance"
  absl::Time deadline = absl::InfiniteFuture();  // the machine may be gone then; InfiniteFuture: not told
  std::string origin;                            // who said it: "aws", "file /run/stop"
};

// "AWS will terminate this spot instance in 118 s (aws)".
std::string DescribeNotice(const Notice& notice, absl::Time now);

inline constexpr size_t kMaxNoticeBytes = 1 << 20;  // of one answer; more is an error

// All: nullopt when the text says that nothing is planned; kInvalidArgument when it is not what the service documents.
using NoticeOr = absl::StatusOr<std::optional<Notice>>;

// AWS latest/meta-data/spot/instance-action: {"action":"terminate","time":"2026-01-01T00:02:00Z"}; also stop, hibernate.
NoticeOr ParseAwsInstanceAction(absl::string_view body);
// AWS latest/meta-data/events/recommendations/rebalance: {"noticeTime":"2026-01-01T00:00:00Z"}. No deadline.
NoticeOr ParseAwsRebalance(absl::string_view body);

// GCP instance/preempted: TRUE or FALSE. A preempted machine has 30 s.
NoticeOr ParseGcpPreempted(absl::string_view body, absl::Time now);
// GCP instance/maintenance-event: TERMINATE_ON_HOST_MAINTENANCE (in 60 s), else NONE or MIGRATE_ON_HOST_MAINTENANCE (the
// machine moves while it runs), which are no notices.
NoticeOr ParseGcpMaintenance(absl::string_view body, absl::Time now);

// Azure scheduled events. The document lists the events of the whole scale set: those with `machine` among their
// resources count, of type Preempt, Terminate, Reboot or Redeploy; the earliest one is told. `event_ids` gets the ids of
// all that count, for AzureAcknowledgement.
NoticeOr ParseAzureEvents(absl::string_view body, absl::string_view machine, std::vector<std::string>* event_ids);
// The body that tells Azure not to wait longer: {"StartRequests":[{"EventId":"…"}]}.
std::string AzureAcknowledgement(const std::vector<std::string>& event_ids);

}  // namespace composer
