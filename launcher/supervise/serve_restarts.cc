// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/serve_restarts.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "contract/exit_code.h"

namespace composer {

ServeRestarts::Decision ServeRestarts::OnExit(ExitStatus status, absl::Time now) {
  if (status.code != exit_code::kUserError) {
    failed_starts_ = 0;
    return {std::max(now, started_ + kInterval),
            absl::StrCat("the rendezvous ", status.ToString(), "; starting it again, the workers go on")};
  }
  ++failed_starts_;
  if (failed_starts_ == kMaxFailedStarts) {
    return {absl::InfiniteFuture(),
            absl::StrCat("the rendezvous could not be started in ", kMaxFailedStarts, " attempts: no more are made")};
  }
  const bool first = failed_starts_ == 1;
  return {now + kInterval * (1 << (failed_starts_ - 1)),
          first ? "the rendezvous cannot be started here; a few more attempts are made, the workers go on" : ""};
}

}  // namespace composer
