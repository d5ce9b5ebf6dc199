// Supervision is what a run reports to its supervisor and asks of it. The worker's agent implements it; a standalone
// program needs none.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace composer {

enum class RunPhase { kStarting, kConnecting, kBuilding, kLoading, kTraining, kEvaluating, kSaving, kDone };

// Threads: called on the training thread.
class Supervision {
 public:
  virtual ~Supervision() = default;
  virtual void OnPhase(RunPhase phase) {}
  // Training begins at `batch`. `checkpoint` is the path that it was loaded from, "" when from scratch.
  virtual void OnStarted(const std::string& checkpoint, int64_t batch, int64_t samples) {}
  // Called after every optimizer step; must cost no more than a few stores. `data_wait` is the share of the last steps'
  // time in which this rank waited for batches (trainer/loop/data_wait.h).
  virtual void OnStep(int64_t batch, int64_t samples, double loss, double data_wait) {}
  virtual void OnCheckpointSaved(const std::string& path, int64_t batch) {}
  // Returns true once the run should save a checkpoint and leave. Called every step.
  virtual bool DrainRequested() const { return false; }
  // Returns true once for each request for a checkpoint. Called every step.
  virtual bool TakeSaveRequest() { return false; }
  // Returns true once for each request for a profile of the next batches. Called every step.
  virtual bool TakeProfileRequest() { return false; }
};

}  // namespace composer
