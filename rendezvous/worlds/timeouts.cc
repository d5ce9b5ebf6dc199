// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/worlds/timeouts.h"

namespace composer {

Timeouts TimeoutsOf(int nodes) {
  Timeouts timeouts;
  if (nodes <= kUsualNodes) return timeouts;
  for (absl::Duration* wait : {&timeouts.keepalive_time, &timeouts.client_keepalive_time, &timeouts.keepalive_timeout,
                               &timeouts.connect_timeout, &timeouts.max_backoff, &timeouts.look, &timeouts.answer,
                               &timeouts.handshake_timeout, &timeouts.regather}) {
    *wait = *wait * nodes / kUsualNodes;
  }
  return timeouts;
}

}  // namespace composer
