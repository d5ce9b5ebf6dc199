// What a run tells whoever watches over it, and asks of them. The worker's agent implements it; a bare program needs
// none.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace composer {

enum class RunPhase { kStarting, kConnecting, kBuilding, kLoading, kTraining, kEvaluating, kSaving, kDone };

// Threads: called from the training thread.
class Supervision {
 public:
  virtual ~Supervision() = default;
  virtual void OnPhase(RunPhase phase) {}
  // Training begins at `batch`; checkpoint is the path it came from, "" when from scratch.
  virtual void OnStarted(const std::string& checkpoint, int64_t batch, int64_t samples) {}
  // After every optimizer step: must cost no more than a few stores.
  virtual void OnStep(int64_t batch, int64_t samples, double loss) {}
  virtual void OnCheckpointSaved(const std::string& path, int64_t batch) {}
  // True once the run should save a checkpoint and leave. Read every step.
  virtual bool DrainRequested() const { return false; }
  // True once for each time that a checkpoint was asked for. Read every step.
  virtual bool TakeSaveRequest() { return false; }
};

}  // namespace composer
