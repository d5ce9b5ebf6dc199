// Determines where Slurm has put this launcher from the variables that srun gives each task. Pure.
//
// Each task of the step is one launcher, and each launcher is one node of the world, whose rank is SLURM_PROCID:
//   srun --ntasks-per-node=1 composer job.yaml   one launcher per node; its workers are the GPUs of the node
//   srun --ntasks-per-node=8 composer job.yaml   one launcher per GPU, with one worker each
// In the second form no launcher leads the others of its node, because with --gpus-per-task or task affinity Slurm
// confines each task to its own GPU and cores, which a leader could not give to workers of its own.
//
// Steps over the parts of a heterogeneous job (srun --het-group=0,1) need no special case: Slurm numbers their tasks
// and nodes consecutively, gives all of them the leader's job id and lists all nodes (seen on 22.05).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/env.h"

namespace composer {

// A number and the variable that gave it, for --explain and for messages.
struct SlurmNumber {
  int value = 0;
  std::string origin;
};

struct SlurmPlace {
  uint64_t job_id = 0;
  int step_id = 0;
  int restarts = 0;       // SLURM_RESTART_COUNT: how often the job was requeued
  SlurmNumber node_rank;  // of this launcher
  SlurmNumber nodes;      // launchers of the step
  SlurmNumber port;       // of the rendezvous: the same for all tasks of the step, above the ephemeral ports
  // Workers of this launcher; nullopt if Slurm gives no GPUs and the launcher decides.
  std::optional<SlurmNumber> slots;

  // The first local rank of this launcher's workers; local ranks are GPU indices. Where each task sees only its own
  // GPUs, they start from 0.
  int first_local_rank = 0;
  int local_world_size = 0;  // 0 means as many as this launcher has workers

  int tasks_here = 1;    // launchers of the step on this host
  int task = 0;          // index of this launcher among them
  int cpus_on_host = 0;  // that the step may use on this host; 0 if unknown

  std::vector<std::string> hosts;  // of the step, in Slurm's order; the first one hosts the rendezvous
  std::string hosts_origin;
  int host = 0;            // index of this launcher's host in `hosts`
  std::string node_group;  // switches or block above this node, "s0.s4.s8"; "" if Slurm knows no topology
};

inline constexpr int kFirstSlurmPort = 61440;
inline constexpr int kSlurmPorts = 4096;

// Returns nullopt if this is not a task of a job step. `visible_gpus` is what this process could use (VisibleGpus); 0
// if none. Returns kInvalidArgument, naming the variable and its value, if one is missing, malformed or contradicts
// another.
absl::StatusOr<std::optional<SlurmPlace>> ReadSlurmPlace(const Environment& environment, int visible_gpus);

// How CPU cores are shared: where Slurm binds tasks to cores, a launcher's cores are its own; elsewhere the tasks of
// the host share them.
struct CpuSharing {
  int workers = 0;  // that share these cores
  int first = 0;    // index of the launcher's first worker among them
};
CpuSharing ShareCpus(const SlurmPlace& place, int allowed_cpus, int workers_of_launcher);

// Returns advice for a launcher that was started without srun in a job of several nodes, and so runs on only one of
// them; "" if nothing is wrong.
std::string SlurmAdvice(const Environment& environment);

}  // namespace composer
