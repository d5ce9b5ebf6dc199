// Reads the log of one rank of a job while it grows, from generation to generation. Files only: works for jobs that run
// and for those that have ended, on any machine that sees the run folder.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace composer {

// The generations that have a log of the rank, ascending. kNotFound: none, with the ranks that have one.
absl::StatusOr<std::vector<int>> LogGenerations(const std::string& run_folder, int rank);

class LogFollower {
 public:
  LogFollower(std::string run_folder, int rank) : run_folder_(std::move(run_folder)), rank_(rank) {}

  // Reads this generation from now on; with last_lines >= 0 only its last lines. kNotFound.
  absl::Status Open(int generation, int64_t last_lines = -1);
  // What is new, at most a megabyte at a time; "" when nothing is. Does not wait.
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
