// A preempted batch job asks Slurm to run it again: `scontrol requeue`, when Slurm would do it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/env.h"
#include "launcher/platform/slurm_environment.h"

namespace composer {

// What `scontrol --oneliner show job ID` says of the job.
struct SlurmJobFacts {
  bool batch = false;    // BatchFlag: started by sbatch, not by srun or salloc
  bool requeue = false;  // Requeue: --requeue or the cluster's JobRequeue allow it
  std::string state;     // JobState: RUNNING; COMPLETING, CANCELLED, TIMEOUT … when Slurm is ending it
};

// Pure. kInvalidArgument: no such text.
absl::StatusOr<SlurmJobFacts> ParseSlurmJob(absl::string_view text);

struct RequeueDecision {
  bool requeue = false;
  std::string reason;  // one line for people; "": there is nothing to say
};

// Pure. Only a running job is requeued: one that was cancelled must not come back.
// `exit_code`: the launcher's. One launcher of the step asks, the one with the lowest rank of the last world
// (`first`).
bool MayRequeue(int exit_code, bool first, bool wanted);
RequeueDecision DecideRequeue(const SlurmPlace& place, const absl::StatusOr<SlurmJobFacts>& facts);

// Asks scontrol for the facts and, if it is so decided, for the requeue; each call has 10 s. Slurm then ends the whole job
// within moments, this process too, and starts the batch script from its beginning with SLURM_RESTART_COUNT one higher.
// Returns what to tell the user.
std::string RequeueSlurmJob(const SlurmPlace& place, const Environment& environment);

}  // namespace composer
