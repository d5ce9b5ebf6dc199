// SPDX-License-Identifier: Apache-2.0
#include "launcher/control/rank_status.h"

#include <algorithm>
#include <limits>

#include "launcher/control/job_status.h"

namespace composer {

proto::RankStatus DescribeRank(const Worker& worker, const ProgressSnapshot& page, absl::Time now) {
  proto::RankStatus status;
  status.set_rank(worker.place.rank);
  status.set_local_rank(worker.place.local_rank);
  status.set_pid(worker.pid);
  // A program that does not attach reports no phase.
  status.set_phase(worker.gone       ? "gone"
                   : worker.attached ? PhaseName(page.phase)
                   : worker.pid != 0 ? "running"
                                     : "starting");
  status.set_step(page.batch);
  status.set_samples(page.samples);
  status.set_loss(page.batch > 0 ? page.loss : std::numeric_limits<double>::quiet_NaN());
  status.set_data_wait(page.data_wait);
  const absl::Time heard = worker.activity.activity().last_heartbeat;
  const bool silent = heard == absl::InfiniteFuture();
  status.set_heartbeat_age_seconds(silent ? -1 : std::max(0.0, absl::ToDoubleSeconds(now - heard)));
  status.set_starved(worker.gone ? "" : worker.starved);
  return status;
}

}  // namespace composer
