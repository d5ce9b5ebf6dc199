// What `composer status` shows of the other nodes: the rendezvous knows them and asks them for their state.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include "absl/status/statusor.h"
#include "proto/control.pb.h"
#include "proto/rendezvous.pb.h"

namespace composer {

// Returns a page of the roster (RendezvousLink::Roster).
using AskRoster = std::function<absl::StatusOr<proto::RosterReply>(int first_node_rank, int count, bool look)>;

// Adds the members of the newest world to a launcher's own status, each with its latest report, and the last cause of
// failure if this launcher was not there to see it. Waits at most kReportPatience for reports; of a node that has not
// reported by then, only its place is known. members_missing says what could not be determined.
inline constexpr absl::Duration kReportPatience = absl::Milliseconds(700);
void AddMembers(proto::JobStatus& status, const AskRoster& ask);

}  // namespace composer
