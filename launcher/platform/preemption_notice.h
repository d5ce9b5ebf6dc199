// Pure parsers for the texts of cloud metadata services that announce the loss of a machine. Addresses, headers and
// polling are in preemption_sources.h.
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
  absl::Time deadline = absl::InfiniteFuture();  // the machine may be gone then; InfiniteFuture if unknown
  std::string origin;                            // its source: "aws", "file /run/stop"
};

// Returns "AWS will terminate this spot instance in 118 s (aws)".
std::string DescribeNotice(const Notice& notice, absl::Time now);

inline constexpr size_t kMaxNoticeBytes = 1 << 20;  // of one answer; more is an error

// All parsers return nullopt if the text says that nothing is planned, and kInvalidArgument if it is not what the
// service documents.
using NoticeOr = absl::StatusOr<std::optional<Notice>>;

// Parses AWS latest/meta-data/spot/instance-action: {"action":"terminate","time":"2026-01-01T00:02:00Z"}; also stop and
// hibernate.
NoticeOr ParseAwsInstanceAction(absl::string_view body);
// Parses AWS latest/meta-data/events/recommendations/rebalance: {"noticeTime":"2026-01-01T00:00:00Z"}. It has no
// deadline.
NoticeOr ParseAwsRebalance(absl::string_view body);

// Parses GCP instance/preempted: TRUE or FALSE. A preempted machine has 30 s.
NoticeOr ParseGcpPreempted(absl::string_view body, absl::Time now);
// Parses GCP instance/maintenance-event: TERMINATE_ON_HOST_MAINTENANCE (in 60 s) is a notice. NONE and
// MIGRATE_ON_HOST_MAINTENANCE (the machine moves while it runs) are not.
NoticeOr ParseGcpMaintenance(absl::string_view body, absl::Time now);

// Parses Azure scheduled events. The document lists the events of the whole scale set. Those count that name `machine`
// among their resources and are of type Preempt, Terminate, Reboot or Redeploy; the earliest one is returned.
// `event_ids` receives the ids of all that count, for AzureAcknowledgement.
NoticeOr ParseAzureEvents(absl::string_view body, absl::string_view machine, std::vector<std::string>* event_ids);
// Returns the body that tells Azure not to wait any longer: {"StartRequests":[{"EventId":"…"}]}.
std::string AzureAcknowledgement(const std::vector<std::string>& event_ids);

}  // namespace composer
