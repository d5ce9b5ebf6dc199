// Connects this launcher to the rendezvous: retries until it is up, reports what it waits for, and can be stopped.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "launcher/rendezvous/rendezvous_link.h"
#include "net/endpoint.h"

namespace composer {

struct ConnectOptions {
  Endpoint endpoint;
  absl::Duration limit;  // to reach the rendezvous; then the error says why it failed
  RendezvousPlaces places;
  int stop_signals = -1;  // a signalfd: when readable it ends the wait with kCancelled, and is left unread
};

// Returns kUnavailable, with everything that was tried, if the rendezvous was not reached; kCancelled after a signal.
absl::StatusOr<std::unique_ptr<RendezvousLink>> ConnectToRendezvous(const ConnectOptions& options,
                                                                    const RendezvousClient::Options& client,
                                                                    const RendezvousLink::Handlers& handlers);

}  // namespace composer
