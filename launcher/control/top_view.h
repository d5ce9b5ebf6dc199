// What `composer top` shows: a job's state and a table of its ranks, as text for a terminal. `wait` is the share of the
// last steps' time in which the rank waited for batches. Pure.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "proto/control.pb.h"

namespace composer {

// What this machine knows of a rank's process. Unknown for ranks of other machines.
struct RankProcess {
  std::optional<double> cpu;              // processors in use since the last frame: 1.5 is one and a half
  std::optional<int64_t> resident_bytes;  // of its memory
  std::string last_line;                  // of its log
};

struct TopFrame {
  proto::JobStatus status;
  std::map<int, RankProcess> processes;    // by rank
  std::map<int, double> steps_per_second;  // by rank, since the last frame
  std::string message;                     // of the last key; "" if none
  int rows = 24, columns = 80;             // of the terminal
  int first = 0;                           // the first shown rank, for scrolling
};

// How many ranks the frame has, of all nodes where they are known.
int RanksOf(const proto::JobStatus& status);

// Returns at most `rows` lines of at most `columns` characters. A late rank (IsBehind of job_status.h) is marked
// with `!`.
std::string RenderTop(const TopFrame& frame);

// /proc/PID/stat of one process. nullopt if the text does not have the format of proc(5).
struct ProcessTimes {
  int64_t ticks = 0;           // user and system
  int64_t resident_pages = 0;  // of memory
};
std::optional<ProcessTimes> ParseProcessTimes(absl::string_view proc_pid_stat);

}  // namespace composer
