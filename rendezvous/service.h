// Adapts a Coordinator to proto::Rendezvous: takes the lock, reads the clock, calls the coordinator and delivers the
// outcome. A stream's messages leave in order.
// Threads: gRPC's own, and one for the coordinator's timer.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <thread>
#include <unordered_map>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "base/clock.h"
#include "proto/rendezvous.grpc.pb.h"
#include "rendezvous/membership/coordinator.h"
#include "rendezvous/store/key_value.h"

namespace composer {

class RendezvousService final : public proto::Rendezvous::CallbackService {
 public:
  // `clock` must outlive this. `store` opens and closes with the generations.
  RendezvousService(Coordinator::Options options, Clock* clock, std::shared_ptr<KeyValueStore> store);
  // Must run after the grpc::Server is gone: no stream may be left.
  ~RendezvousService() override;

  grpc::ServerBidiReactor<proto::NodeMessage, proto::CoordinatorMessage>* Attend(grpc::CallbackServerContext*) override;
  grpc::ServerUnaryReactor* Roster(grpc::CallbackServerContext*, const proto::RosterRequest*,
                                   proto::RosterReply*) override;

  // Ends every stream with UNAVAILABLE and every waiting Get with ABORTED.
  void Stop();

 private:
  class Stream;

  // Returns false when no more messages are to be read from the stream.
  bool Handle(Stream* stream, const proto::NodeMessage& message);
  void Lost(Stream* stream);
  void Dispatch(Stream* stream, const proto::NodeMessage& message) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Reject(Stream* stream, const absl::Status& why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Deliver(const Coordinator::Outcome& outcome) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void NoticeStall() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void RunTimer();

  const std::string job_;
  Clock* const clock_;
  const std::shared_ptr<KeyValueStore> store_;
  absl::Mutex mutex_;
  Coordinator coordinator_ ABSL_GUARDED_BY(mutex_);
  // Each stream deletes itself when gRPC is done with it.
  std::unordered_map<Coordinator::Session, Stream*> streams_ ABSL_GUARDED_BY(mutex_);
  Coordinator::Session last_session_ ABSL_GUARDED_BY(mutex_) = 0;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Time pulse_ ABSL_GUARDED_BY(mutex_) = absl::InfiniteFuture();  // when the timer's thread last ran
  bool wake_changed_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread timer_;
};

}  // namespace composer
