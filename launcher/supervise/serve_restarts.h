// When a launcher starts its rendezvous again, and what it says about it. Pure.
//
//   it ran and died            again, at most once a second; said each time
//   it could not start (64)    again after 1, 2, 4 and 8 s, said once: its port may be free in a moment
//   the fifth time in a row    not again: RendezvousLink gives the job up when the grace is over and no other host serves
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
    absl::Time at = absl::InfiniteFuture();  // InfiniteFuture: not again
    std::string message;                     // ""
  };

  void OnStart(absl::Time now) { started_ = now; }
  Decision OnExit(ExitStatus status, absl::Time now);
  // The next one's error was said before.
  bool quiet() const { return failed_starts_ > 0; }

 private:
  absl::Time started_ = absl::InfinitePast();
  int failed_starts_ = 0;  // in a row
};

}  // namespace composer
