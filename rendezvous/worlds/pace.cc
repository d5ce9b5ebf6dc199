// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/worlds/pace.h"

namespace composer {

Pace PaceOf(int nodes) {
  Pace pace;
  if (nodes <= kUsualNodes) return pace;
  for (absl::Duration* wait :
       {&pace.keepalive_time, &pace.client_keepalive_time, &pace.keepalive_timeout, &pace.connect_timeout,
        &pace.max_backoff, &pace.look, &pace.answer, &pace.handshake_timeout, &pace.regather}) {
    *wait = *wait * nodes / kUsualNodes;
  }
  return pace;
}

}  // namespace composer
