// Implements the trainer's Supervision by passing everything to the launcher through the worker's agent.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "trainer/core/supervision.h"
#include "worker/agent.h"

namespace composer {

class AgentSupervision final : public Supervision {
 public:
  // `agent` must outlive this object.
  explicit AgentSupervision(WorkerAgent& agent) : agent_(agent) {}

  void OnPhase(RunPhase phase) override { agent_.SetPhase(static_cast<proto::Phase>(static_cast<int>(phase))); }
  void OnStarted(const std::string& checkpoint, int64_t batch, int64_t samples) override {
    batch_ = batch;
    samples_ = samples;
    agent_.ReportStarted(checkpoint, batch, samples);
  }
  void OnStep(int64_t batch, int64_t samples, double loss, double data_wait) override {
    batch_ = batch;
    samples_ = samples;
    agent_.RecordStep(batch, samples, loss, data_wait);
  }
  void OnCheckpointSaved(const std::string& path, int64_t batch) override { agent_.ReportCheckpointSaved(path, batch); }
  bool DrainRequested() const override { return agent_.drain_requested(); }
  bool TakeSaveRequest() override { return agent_.TakeSaveRequest(); }
  bool TakeProfileRequest() override { return agent_.TakeProfileRequest(); }

  int64_t batch() const { return batch_; }
  int64_t samples() const { return samples_; }

 private:
  static_assert(static_cast<int>(RunPhase::kDone) == proto::PHASE_DONE, "RunPhase and proto::Phase go together");
  WorkerAgent& agent_;
  int64_t batch_ = 0;
  int64_t samples_ = 0;
};

}  // namespace composer
