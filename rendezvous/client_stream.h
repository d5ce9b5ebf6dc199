// The stream of a RendezvousClient and the state machine behind its calls. This is a separate header only because of
// its length: use client.h.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "proto/rendezvous.grpc.pb.h"
#include "rendezvous/client.h"

namespace composer {

// Implements the state machine of the stream. gRPC runs reactions on its own threads, never inside StartWrite.
class RendezvousClient::Stream final : public grpc::ClientBidiReactor<proto::NodeMessage, proto::CoordinatorMessage> {
 public:
  using Handler = std::function<void(const proto::GenerationOver&)>;

  Stream(Options options, const std::shared_ptr<grpc::Channel>& channel);
  ~Stream() override;
  absl::StatusOr<proto::World> Join(absl::Duration timeout, const proto::RestartTally& tally, bool checkpointed);
  absl::Status Reattach(std::vector<proto::KeyMemory> keys, absl::Duration timeout);
  proto::MembershipRecord record() const;
  void SetHandler(Handler handler);
  void SetResizeHandler(std::function<void(const proto::Resize&)> handler);
  void SetLookHandler(std::function<void()> handler);
  void SetSpareHandler(std::function<void(const proto::Spare&)> handler);
  void SetProbeHandler(std::function<void(const proto::Probe&)> handler);
  void Report(const proto::NodeReport& report);
  void Answer(const proto::Probed& probed);
  absl::Status ReportGenerationEnded(const proto::FailureCause& cause);
  void Leave(absl::string_view reason, bool done);
  void OnReadDone(bool ok) override;
  void OnWriteDone(bool ok) override;
  void OnDone(const grpc::Status& status) override;

 private:
  void SendJoin(const proto::RestartTally& tally, bool checkpointed) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Send(proto::NodeMessage message) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Remember() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TakeWorld();
  void TakeConfirmed(const proto::Confirmed& confirmed);
  void TakeResize(const proto::Resize& resize);
  void TakeSpare(const proto::Spare& spare);
  void TakeLook();
  void TakeProbe(const proto::Probe& probe);
  void AnswerReattach(absl::Status answer);
  void TakeGenerationOver(const proto::GenerationOver& over);
  absl::Status Explain(const grpc::Status& status) const;
  void ReleaseHold() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Options options_;
  const std::unique_ptr<proto::Rendezvous::Stub> stub_;
  grpc::ClientContext context_;
  proto::CoordinatorMessage incoming_;

  mutable absl::Mutex mutex_;
  Handler handler_ ABSL_GUARDED_BY(mutex_);
  std::function<void(const proto::Resize&)> resize_handler_ ABSL_GUARDED_BY(mutex_);
  std::function<void(const proto::Spare&)> spare_handler_ ABSL_GUARDED_BY(mutex_);
  std::function<void()> look_handler_ ABSL_GUARDED_BY(mutex_);
  std::function<void(const proto::Probe&)> probe_handler_ ABSL_GUARDED_BY(mutex_);
  std::deque<proto::NodeMessage> outgoing_ ABSL_GUARDED_BY(mutex_);  // the first one is being written
  proto::MembershipRecord record_ ABSL_GUARDED_BY(mutex_);
  std::optional<proto::World> world_ ABSL_GUARDED_BY(mutex_);  // arrived, not yet returned
  bool joining_ ABSL_GUARDED_BY(mutex_) = false;               // Join is sent, its World has not arrived
  uint64_t taken_ ABSL_GUARDED_BY(mutex_) = 0;                 // the generation that Join returned last
  bool armed_ ABSL_GUARDED_BY(mutex_) = false;                 // the handler is to be called when the world ends
  bool reattaching_ ABSL_GUARDED_BY(mutex_) = false;           // Reattach is sent, its answer has not arrived
  absl::Status reattach_answer_ ABSL_GUARDED_BY(mutex_);
  bool reads_over_ ABSL_GUARDED_BY(mutex_) = false;
  bool held_ ABSL_GUARDED_BY(mutex_) = true;
  std::optional<absl::Status> over_ ABSL_GUARDED_BY(mutex_);  // why the stream ended; never OK
  bool done_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace composer
