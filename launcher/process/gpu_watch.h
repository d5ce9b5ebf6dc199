// What the driver says has gone wrong with this node's GPUs since the workers began: Xids, uncorrected errors of
// memory, a slow-down by heat or power. It explains a worker's failure, which otherwise shows as an error of whatever
// kernel came next. Not thread-safe. No call blocks.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "base/nvml.h"

namespace composer {

class GpuWatch {
 public:
  explicit GpuWatch(std::string library = "libnvidia-ml.so.1") : library_(std::move(library)) {}

  // Starts a new generation: what the driver says so far belongs to earlier ones. Loads the driver's library at the
  // first call; a node without one is a node of which nothing is known.
  void Begin();
  // Returns what is wrong with the GPU that CUDA calls `cuda_index`: "GPU 3 reported Xid 79 (…)"; "": nothing is known.
  // The number is NVML's.
  std::string Look(int cuda_index, absl::string_view visible_devices);

 private:
  void TakeEvents();

  const std::string library_;
  bool tried_ = false;
  std::unique_ptr<Nvml> nvml_;              // null: no driver
  std::map<int, std::vector<int>> xids_;    // since Begin, by NVML's number
  std::map<int, int64_t> errors_at_begin_;  // uncorrected, of memory
};

}  // namespace composer
