// Decides when a launcher restarts its rendezvous, and what it says about it. Pure.
//
//   It ran and died:              restarted at most once a second; reported each time.
//   It could not start (64):      retried after 1, 2, 4 and 8 s, because its port may soon be free; reported once.
//   The fifth failure in a row:   not retried. RendezvousLink gives the job up when the grace period is over and no
//                                 other host serves.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/time/time.h"
#include "base/process.h"

namespace composer {

class ServeRestarts {
 public:
  static constexpr absl::Duration kInterval = absl::Seconds(1);
  static constexpr int kMaxFailedStarts = 5;

  struct Decision {
    absl::Time at = absl::InfiniteFuture();  // InfiniteFuture means never
    std::string message;                     // "" if there is nothing to say
  };

  void OnStart(absl::Time now) { started_ = now; }
  Decision OnExit(ExitStatus status, absl::Time now);
  // Returns whether the next rendezvous must not repeat an error that was already reported.
  bool quiet() const { return failed_starts_ > 0; }

 private:
  absl::Time started_ = absl::InfinitePast();
  int failed_starts_ = 0;  // in a row
};

}  // namespace composer
