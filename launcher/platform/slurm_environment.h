// Where Slurm has put this launcher: read from the variables that srun gives each task. Pure.
//
// Each task of the step is one launcher, and each launcher is one node of the world, whose rank is SLURM_PROCID:
//   srun --ntasks-per-node=1 composer job.yaml   one launcher a node; its workers are the GPUs of the node
//   srun --ntasks-per-node=8 composer job.yaml   one launcher a GPU, of one worker each
// In the second form no launcher leads the others of its node: with --gpus-per-task or task affinity Slurm confines each
// task to its own GPU and cores, which a leader could not hand to workers of its own.
//
// Steps over the parts of a heterogeneous job (srun --het-group=0,1) need no case of their own: Slurm numbers their tasks
// and nodes through, gives all of them the leader's job id and lists all nodes (seen on 22.05).
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
  int restarts = 0;                  // SLURM_RESTART_COUNT: how often the job was requeued
  SlurmNumber node_rank;             // of this launcher
  SlurmNumber nodes;                 // launchers of the step
  SlurmNumber port;                  // of the rendezvous: the same for all tasks of the step, above the ephemeral ports
  std::optional<SlurmNumber> slots;  // workers of this launcher; nullopt: Slurm gives no GPUs, the launcher decides

  // Local ranks of this launcher's workers count from the first one; they are indices of GPUs. Where each task sees its
  // own GPUs only, they count from 0 again.
  int first_local_rank = 0;
  int local_world_size = 0;  // 0: as many as this launcher has workers

  int tasks_here = 1;    // launchers of the step on this host
  int task = 0;          // of this one among them
  int cpus_on_host = 0;  // that the step may use on this host; 0: not told

  std::vector<std::string> hosts;  // of the step, in Slurm's order; the first one hosts the rendezvous
  std::string hosts_origin;
  int host = 0;            // of this launcher, an index into hosts
  std::string node_group;  // switches or block above this node, "s0.s4.s8"; "": Slurm knows no topology
};

inline constexpr int kFirstSlurmPort = 61440;
inline constexpr int kSlurmPorts = 4096;

// nullopt: not a task of a job step. `visible_gpus`: what this process could use (VisibleGpus); 0: none.
// kInvalidArgument: a variable is missing, malformed or contradicts another; the message names it and its value.
absl::StatusOr<std::optional<SlurmPlace>> ReadSlurmPlace(const Environment& environment, int visible_gpus);

// The cores that a launcher may use are its own where Slurm binds tasks to cores; else the tasks of the host share them.
struct CpuSharing {
  int workers = 0;  // that share these cores
  int first = 0;    // which of them is the launcher's first worker
};
CpuSharing ShareCpus(const SlurmPlace& place, int allowed_cpus, int workers_of_launcher);

// For a launcher that was started in a job of several nodes without srun, and so runs on one of them only: what to do
// about it. "": nothing is wrong.
std::string SlurmAdvice(const Environment& environment);

}  // namespace composer
