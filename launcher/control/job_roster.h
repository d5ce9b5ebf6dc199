// What `composer status` shows of the other nodes: the rendezvous knows who they are, and asks them how they are doing.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "absl/status/statusor.h"
#include "proto/control.pb.h"
#include "proto/rendezvous.pb.h"

namespace composer {

// A page of the roster (RendezvousLink::Roster).
using AskRoster = std::function<absl::StatusOr<proto::RosterReply>(int first_node_rank, int count, bool look)>;

// Adds the members of the newest world to a launcher's own status, each with what it has just reported, and the last cause
// of failure when this launcher was not there to see it. Waits for reports for at most kReportPatience; of a node that
// has not reported by then, only its place is known. members_missing says what could not be had.
inline constexpr absl::Duration kReportPatience = absl::Milliseconds(700);
void AddMembers(proto::JobStatus& status, const AskRoster& ask);

}  // namespace composer
