// Reads the log of one rank of a job while it grows, from generation to generation. Uses files only, so it works for
// running and ended jobs, on any machine that sees the run folder.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace composer {

// Returns the generations that have a log of the rank, ascending. Returns kNotFound, naming the ranks that have logs,
// if there are none.
absl::StatusOr<std::vector<int>> LogGenerations(const std::string& run_folder, int rank);

class LogFollower {
 public:
  LogFollower(std::string run_folder, int rank) : run_folder_(std::move(run_folder)), rank_(rank) {}

  // Reads this generation from now on; with last_lines >= 0 only its last lines. Returns kNotFound if it has no log.
  absl::Status Open(int generation, int64_t last_lines = -1);
  // Returns what is new, at most 1 MiB per call; "" if nothing is. Does not block.
  absl::StatusOr<std::string> Read();
  int generation() const { return generation_; }

 private:
  const std::string run_folder_;
  const int rank_;
  int generation_ = 0;
  std::string path_;
  int64_t offset_ = 0;
};

}  // namespace composer
