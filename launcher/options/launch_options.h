// The launcher's flags, in the spelling of the Python composer launcher and of torchrun. --help, shell completion and
// the manual page are made from the same table (launch_option_table.h).
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
  // Workers and nodes. launch_shape.h defines what they mean together.
  std::string nproc;   // a number, auto, cpu, gpu; "" if not given
  int world_size = 0;  // 0 if not given
  int base_rank = -1;  // -1 if not given
  int node_rank = -1;  // -1 if not given
  int min_nodes = 0;   // 0 if not given
  int max_nodes = 0;
  std::string node_group;  // switch, rack or block of this node; "" if not given

  // Where the nodes meet.
  std::string master_addr;
  int master_port = -1;       // -1 if not given; 0 means any free one
  std::string rdzv_endpoint;  // HOST[:PORT], or several separated by commas
  std::string rdzv_id;
  std::string rdzv_backend;
  std::map<std::string, std::string> rdzv_conf;
  bool standalone = false;
  std::string local_addr;     // address at which peers reach this node; "" means automatic
  double join_timeout = 600;  // seconds to wait for the rendezvous and for the other nodes
  int rdzv_blip = 10;         // seconds that a node which others reach may be cut off from the rendezvous
  int rdzv_grace = 60;        // seconds that a running world waits for a rendezvous that is away
  double last_call = 1;       // seconds to wait for more nodes once the minimum is there
  std::string grow;           // checkpoint, now, never; "" if not given

  // The program.
  std::string job_command;   // eval, predict or generate instead of training; "" trains
  bool command = false;      // -c, --no-python
  bool module = false;       // -m
  bool run_path = false;     // torchrun's flag: a script, whatever its name
  bool expand_vars = false;  // $NAME and ~ in the program's arguments
  std::string role = "default";

  std::string startup_limits;  // contract/startup_limits.h; "" if not given
  int max_restarts = -1;       // -1 if not given (then the job's, else 3 for YAML jobs and 0 for programs)

  SecurityFlags security;
  ControlPlaneFlags control_plane;

  // Output.
  std::string stdout_file;  // templates, see output_plan.h
  std::string stderr_file;
  std::string log_dir;
  StreamChoice redirects;
  StreamChoice tee;
  std::vector<int> local_ranks_filter;  // empty means all

  // Being stopped.
  std::string preemption;  // see preemption_spec.h
  bool requeue = true;     // whether a preempted Slurm batch job requeues itself

  bool verbose = false;
  bool explain = false;
  bool dry_run = false;
  bool version = false;
  bool help = false;
  std::string print_completion;  // bash, zsh

  std::vector<OptionValue> values;  // with origins, for --explain
  std::vector<std::string> words;   // the program and its arguments

  // Returns the value as the user gave it, with its origin; null if not given.
  const OptionValue* Given(absl::string_view name) const;
};

// Returns kInvalidArgument as ParseOptions does, and for an rdzv-conf that is not a list of known key=value pairs.
absl::StatusOr<LaunchOptions> ParseLaunchOptions(const std::vector<std::string>& arguments,
                                                 const Environment& environment);

}  // namespace composer
