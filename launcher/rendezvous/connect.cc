// SPDX-License-Identifier: Apache-2.0
#include "launcher/rendezvous/connect.h"

#include <poll.h>

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/console.h"
#include "launcher/rendezvous/reachability.h"
#include "rendezvous/worlds/timeouts.h"

namespace composer {
namespace {

// The time waited between two checks for signals: short at first, then long enough for a TLS handshake over a slow
// link.
constexpr absl::Duration kFirstSlice = absl::Seconds(1), kLastSlice = absl::Seconds(4),
                         kLongestSlice = absl::Seconds(15);
// The wait before the first message, because nodes do not start simultaneously.
constexpr absl::Duration kQuiet = absl::Seconds(3);
constexpr absl::Duration kProbeLimit = absl::Seconds(2);
constexpr absl::Duration kProbeInterval = absl::Seconds(10);

bool Stopped(int stop_signals) {
  pollfd ready = {stop_signals, POLLIN, 0};
  return stop_signals >= 0 && poll(&ready, 1, 0) > 0;
}

}  // namespace

absl::StatusOr<std::unique_ptr<RendezvousLink>> ConnectToRendezvous(const ConnectOptions& options,
                                                                    const RendezvousClient::Options& client,
                                                                    const RendezvousLink::Handlers& handlers) {
  const absl::Time begin = absl::Now();
  absl::Time probe_at = begin + kQuiet;
  std::string told;
  // Each slice connects anew. In a large job it lasts until a server that all nodes contact at once gets to us.
  const Timeouts timeouts = TimeoutsOf(client.max_nodes);
  const absl::Duration last_slice = std::clamp(timeouts.connect_timeout, kLastSlice, kLongestSlice);
  absl::Duration slice = client.max_nodes <= kUsualNodes ? kFirstSlice : last_slice;
  while (true) {
    const absl::Duration left = begin + options.limit - absl::Now();
    auto link = RendezvousLink::Start(
        client, handlers, {.first_connect = std::clamp(left, absl::Milliseconds(100), slice), .join = options.limit},
        options.places);
    if (!absl::IsUnavailable(link.status())) return link;
    slice = std::min(2 * slice, last_slice);
    if (Stopped(options.stop_signals)) return absl::CancelledError("stopped while waiting for the rendezvous");
    const absl::Duration waited = absl::Now() - begin;
    if (waited >= options.limit) {
      return absl::UnavailableError(ExplainUnreachable(ProbeReachability(options.endpoint, kProbeLimit), waited));
    }
    if (absl::Now() < probe_at) continue;
    probe_at = absl::Now() + kProbeInterval;
    const std::string state = DescribeReachability(ProbeReachability(options.endpoint, kProbeLimit));
    if (state == told) continue;
    told = state;
    PrintToUser(absl::StrCat("waiting for the rendezvous at ", options.endpoint.ToString(), ", at most ",
                             absl::FormatDuration(options.limit), ": ", state));
  }
}

}  // namespace composer
