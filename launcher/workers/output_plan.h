// Decides where each rank's output goes: to the terminal, to files, or to both. Pure.
//
//   --stdout FILE, --stderr FILE   local ranks over 0 write to that file, not to the terminal (Python launcher)
//   -r STREAMS                     to <log dir>/<job>/attempt_<n>/<rank>/stdout.log, not to the terminal (torchrun)
//   -t STREAMS                     to the terminal with [rank] before each line, and to these files with --log-dir
//   --log-dir alone                all streams to these files, and to the terminal as without it
//   --local-ranks-filter N,…       the terminal shows nothing of other local ranks
//
// Without any of these the terminal shows rank 0 unchanged. Of the other ranks it shows nothing if a run folder keeps
// their logs, else their lines with [rank]. Files are appended to. On the Mosaic platform (MOSAICML_PLATFORM,
// MOSAICML_LOG_DIR, MOSAICML_GPU_LOG_FILE_PREFIX) local ranks over 0 write both streams to
// {dir}/{prefix}{local_rank}.txt, as Composer's do.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/env.h"
#include "launcher/workers/rank_logs.h"
#include "launcher/workers/worker_environment.h"

namespace composer {

// Which streams of which local ranks, in torchrun's notation: "3" or "0:3,1:1". 0 is none, 1 stdout, 2 stderr, 3 both.
struct StreamChoice {
  int all = 0;             // for the local ranks that `one` does not name
  std::map<int, int> one;  // by local rank; `all` is 0 unless this is empty
  bool given = false;

  bool Has(int local_rank, int stream) const {  // stream is 1 or 2
    const auto it = one.find(local_rank);
    return ((it == one.end() ? all : it->second) & stream) != 0;
  }
};

struct OutputOptions {
  std::string stdout_file;  // templates, see FormatFileName; "" if none
  std::string stderr_file;
  std::string log_dir;      // "" if none
  std::string job;          // names the folder in log_dir
  bool keeps_logs = false;  // a run folder has the logs of all ranks
  StreamChoice redirects;
  StreamChoice tee;
  bool tee_to_files = false;
  std::vector<int> local_ranks_filter;  // empty means all
};

struct StreamOutput {
  RankLogs::Show show = RankLogs::Show::kRaw;
  std::string path;  // "" means no file
};
struct RankOutput {
  StreamOutput out;
  StreamOutput err;
};
RankOutput PlanOutput(const OutputOptions& options, const WorkerPlace& place);

// Replaces `{rank} {local_rank} {world_size} {local_world_size} {node_rank} {restart_count} {run_name}`. Numbers may
// have a width, {rank:05d}; {{ and }} stand for braces. This is the part of Python's str.format that the Python
// launcher offers. Returns kInvalidArgument naming the mistake and the nearest known name.
absl::StatusOr<std::string> FormatFileName(const std::string& text, const WorkerPlace& place);

}  // namespace composer
