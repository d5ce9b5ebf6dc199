// The launcher's service for its workers, on a Unix socket that only this user can reach: it tracks who is attached and
// what they report, and tells them to stop. It also serves the key-value store, which it forwards to the rendezvous. A
// worker of another job or generation is refused with ABORTED. Thread-safe; the handler runs on gRPC threads and must
// not block.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/worker.pb.h"

namespace grpc {
class Server;
class Service;
}  // namespace grpc

namespace composer {

class KeyValueProxy;
class KeyValueUpstream;
class Listener;

class WorkerHub {
 public:
  // What a worker sent, and the generation in which it was admitted.
  struct Report {
    uint64_t generation;
    int rank;
    proto::WorkerMessage message;
  };
  using Handler = std::function<void(Report)>;

  struct Options {
    std::string socket_path;  // in a folder with mode 0700; at most 100 bytes
    std::string job;
    std::shared_ptr<KeyValueUpstream> upstream;  // the rendezvous's key-value store
    Handler handler;
    std::vector<grpc::Service*> more_services;  // also served on the socket; must outlive the hub
  };

  static absl::StatusOr<std::unique_ptr<WorkerHub>> Start(Options options);
  // Ends all streams.
  ~WorkerHub();

  // Admits only workers of this generation from now on, and forgets any earlier stop request.
  void BeginGeneration(uint64_t generation);
  // Asks the attached workers for a checkpoint; they go on training.
  void Save(const std::string& reason);
  // Asks the attached workers to profile the next batches, or to write the stacks of their threads into a folder.
  void Profile();
  void WriteStacks(const std::string& folder);
  // Drain and EndGeneration also reach workers that attach later.
  void Drain(const std::string& reason);
  void EndGeneration(const std::string& cause);

  // Returns the value of COMPOSER_HUB: "unix:/path".
  std::string address() const;

 private:
  class Service;

  explicit WorkerHub(Options options);

  const Options options_;
  std::unique_ptr<Service> service_;  // the services must outlive the server
  std::unique_ptr<KeyValueProxy> key_value_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<Listener> listener_;
};

}  // namespace composer
