// The launcher's flags, in the Python composer launcher's and in torchrun's spelling. The table (launch_option_table.h) is
// also where --help, shell completion and the manual page come from.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/env.h"
#include "base/options.h"
#include "launcher/options/service_flags.h"
#include "launcher/workers/output_plan.h"

namespace composer {

inline constexpr size_t kMaxNodeGroupBytes = 256;

struct LaunchOptions {
  // Workers and nodes. What they mean together: launch_shape.h.
  std::string nproc;   // a number, auto, cpu, gpu; "": not given
  int world_size = 0;  // 0: not given
  int base_rank = -1;  // -1: not given
  int node_rank = -1;  // -1: not given
  int min_nodes = 0;   // 0: not given
  int max_nodes = 0;
  std::string node_group;  // switch, rack or block of this node; "": not given

  // Where the nodes meet.
  std::string master_addr;
  int master_port = -1;       // -1: not given; 0: any free one
  std::string rdzv_endpoint;  // HOST[:PORT], several with commas
  std::string rdzv_id;
  std::string rdzv_backend;
  std::map<std::string, std::string> rdzv_conf;
  bool standalone = false;
  std::string local_addr;     // that this node's peers reach it at; "": found out
  double join_timeout = 600;  // seconds to wait for the rendezvous and for the other nodes
  int rdzv_blip = 10;         // seconds that a node which others reach may be cut off from the rendezvous
  int rdzv_grace = 60;        // seconds that a running world waits for a rendezvous that is away
  double last_call = 1;       // seconds to wait for more nodes when the least number is there
  std::string grow;           // checkpoint, now, never; "": not given

  // The program.
  bool command = false;      // -c, --no-python
  bool module = false;       // -m
  bool run_path = false;     // torchrun's: a script, whatever its name
  bool expand_vars = false;  // $NAME and ~ in the program's arguments
  std::string role = "default";

  std::string startup_limits;  // contract/startup_limits.h; "": not given
  int max_restarts = -1;       // -1: not given (the job's, else 3 for YAML jobs and 0 for programs)

  SecurityFlags security;
  ControlPlaneFlags control_plane;

  // Output.
  std::string stdout_file;  // templates, see output_plan.h
  std::string stderr_file;
  std::string log_dir;
  StreamChoice redirects;
  StreamChoice tee;
  std::vector<int> local_ranks_filter;  // empty: all

  // Being stopped.
  std::string preemption;  // see preemption_spec.h
  bool requeue = true;     // a preempted Slurm batch job asks for its next turn

  bool verbose = false;
  bool explain = false;
  bool dry_run = false;
  bool version = false;
  bool help = false;
  std::string print_completion;  // bash, zsh

  std::vector<OptionValue> values;  // with origins, for --explain
  std::vector<std::string> words;   // the program and its arguments

  // The value as the user gave it, with its origin; null: not given.
  const OptionValue* Given(absl::string_view name) const;
};

// kInvalidArgument as ParseOptions; also for a rdzv-conf that is no list of known key=value.
absl::StatusOr<LaunchOptions> ParseLaunchOptions(const std::vector<std::string>& arguments,
                                                 const Environment& environment);

}  // namespace composer
