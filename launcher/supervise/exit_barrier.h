// Nodes whose workers are done leave together: until the last one is, a failure elsewhere starts a new generation, and that
// needs them. A counter and a key in the generation's store: one call to arrive, one that waits, whatever the number of nodes.
// Threads: one caller; the answer comes on a thread of its own.
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
  // `store`: of KeyValue, with ChannelSettings.
  ExitBarrier(std::shared_ptr<grpc::Channel> store, std::string job);
  // Waits for nobody: a call under way is cancelled.
  ~ExitBarrier();

  // This node is done. `answer` is called once: OK when all `nodes` are; kAborted when the generation is over, since another
  // node failed; kCancelled from the destructor; any other code when the store is gone and nobody can be asked. One at a time.
  void Arrive(uint64_t generation, int nodes, std::function<void(absl::Status)> answer);

 private:
  absl::Status WaitForAll(uint64_t generation, int nodes);
  template <typename Call>
  absl::Status Try(Call call);

  const std::shared_ptr<grpc::Channel> store_;
  const std::string job_;
  absl::Mutex mutex_;
  grpc::ClientContext* running_ ABSL_GUARDED_BY(mutex_) = nullptr;  // of the call under way
  bool cancelled_ ABSL_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace composer
