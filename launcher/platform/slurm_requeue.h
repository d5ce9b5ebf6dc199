// Lets a preempted batch job ask Slurm to run it again, with `scontrol requeue`, if Slurm would do it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/env.h"
#include "launcher/platform/slurm_environment.h"

namespace composer {

// What `scontrol --oneliner show job ID` says about the job.
struct SlurmJobFacts {
  bool batch = false;    // BatchFlag: started by sbatch, not by srun or salloc
  bool requeue = false;  // Requeue: --requeue or the cluster's JobRequeue allows it
  std::string state;     // JobState: RUNNING; COMPLETING, CANCELLED, TIMEOUT … when Slurm is ending it
};

// Pure. Returns kInvalidArgument if the text is not such an answer.
absl::StatusOr<SlurmJobFacts> ParseSlurmJob(absl::string_view text);

struct RequeueDecision {
  bool requeue = false;
  std::string reason;  // one line for people; "" if there is nothing to say
};

// Both are pure. Only a running job is requeued, because a cancelled one must not come back. `exit_code` is the
// launcher's. One launcher of the step asks, the one with the lowest rank of the last world (`first`).
bool MayRequeue(int exit_code, bool first, bool wanted);
RequeueDecision DecideRequeue(const SlurmPlace& place, const absl::StatusOr<SlurmJobFacts>& facts);

// Asks scontrol for the facts and, if so decided, for the requeue; each call has 10 s. Slurm then ends the whole job
// within moments, including this process, and restarts the batch script from its beginning with SLURM_RESTART_COUNT one
// higher. Returns what to tell the user.
std::string RequeueSlurmJob(const SlurmPlace& place, const Environment& environment);

}  // namespace composer
