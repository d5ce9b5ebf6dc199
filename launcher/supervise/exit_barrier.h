// Lets nodes whose workers are done leave together, because until the last node is done a failure elsewhere starts a
// new generation, which needs them all. Uses a counter and a key in the generation's store: one call to arrive and one
// that waits, whatever the number of nodes. One caller; the answer arrives on a thread of its own.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>

#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"

namespace composer {

class ExitBarrier {
 public:
  // `store` must serve KeyValue and have ChannelSettings.
  ExitBarrier(std::shared_ptr<grpc::Channel> store, std::string job);
  // Does not wait for other nodes: cancels a call in progress.
  ~ExitBarrier();

  // Reports that this node is done. `answer` is called once: OK when all `nodes` are done; kAborted when the generation
  // is over because another node failed; kCancelled from the destructor; any other code when the store is gone and
  // nobody can be asked. Only one call may be in progress.
  void Arrive(uint64_t generation, int nodes, std::function<void(absl::Status)> answer);

 private:
  absl::Status WaitForAll(uint64_t generation, int nodes);
  template <typename Call>
  absl::Status Try(Call call);

  const std::shared_ptr<grpc::Channel> store_;
  const std::string job_;
  absl::Mutex mutex_;
  grpc::ClientContext* running_ ABSL_GUARDED_BY(mutex_) = nullptr;  // of the call in progress
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace composer
