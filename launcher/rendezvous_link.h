// This launcher's tie to the rendezvous: joins generations without blocking the caller, and makes a new connection when
// the rendezvous was restarted. Workers go on while it is away: only the next Join needs it.
// Threads: one caller; the handlers run on other threads and must not block.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "rendezvous/client.h"

namespace composer {

class RendezvousLink {
 public:
  struct Handlers {
    std::function<void(absl::StatusOr<proto::World>)> on_world;            // the answer to Join
    std::function<void(const proto::GenerationOver&)> on_generation_over;  // another node's workers failed
  };

  struct Limits {
    absl::Duration first_connect = absl::Seconds(30);  // of Start; later ones have options.connect_timeout
    absl::Duration join = absl::Minutes(10);           // that a Join waits for the other nodes
  };

  // Connects, waiting for a rendezvous that is not up yet. kUnavailable: none in time.
  static absl::StatusOr<std::unique_ptr<RendezvousLink>> Start(RendezvousClient::Options options, Handlers handlers,
                                                               const Limits& limits);
  // Waits for a Join that runs.
  ~RendezvousLink();

  // Asks for the next generation; the answer comes to on_world. One at a time.
  void Join();
  // Tells the other nodes that this node's workers are gone or going.
  void ReportEnded(const proto::FailureCause& cause);
  void Leave(absl::string_view reason);

  // For the key-value proxy; reconnects by itself.
  std::shared_ptr<grpc::Channel> channel() const { return channel_; }

 private:
  RendezvousLink(RendezvousClient::Options options, Handlers handlers, const Limits& limits)
      : options_(std::move(options)), handlers_(std::move(handlers)), limits_(limits) {}

  // Makes client_ anew.
  absl::Status Connect(absl::Duration limit);
  std::shared_ptr<RendezvousClient> client();
  absl::StatusOr<proto::World> JoinOrReconnect();

  const RendezvousClient::Options options_;
  const Handlers handlers_;
  const Limits limits_;
  std::shared_ptr<grpc::Channel> channel_;
  absl::Mutex mutex_;
  std::shared_ptr<RendezvousClient> client_ ABSL_GUARDED_BY(mutex_);
  bool leaving_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread joiner_;  // runs one Join
};

}  // namespace composer
