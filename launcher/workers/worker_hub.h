// The launcher's service for its workers, on a Unix socket that only this user can reach: who is attached, what they
// report, and the word to stop. The key-value store is served there too and passed on to the rendezvous.
// A worker of another job or generation is refused with ABORTED.
// Threads: all methods may be called from any thread; the handler runs on gRPC threads and must not block.
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
  // What a worker said, and in which generation it was admitted.
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
    std::vector<grpc::Service*> more_services;  // served on the socket too; they outlive the hub
  };

  static absl::StatusOr<std::unique_ptr<WorkerHub>> Start(Options options);
  // Ends all streams.
  ~WorkerHub();

  // Workers of this generation are welcome from now on, others are not; a stop asked for earlier is forgotten.
  void BeginGeneration(uint64_t generation);
  // Asks those that are attached for a checkpoint; they go on.
  void Save(const std::string& reason);
  // Both also reach workers that attach later.
  void Drain(const std::string& reason);
  void EndGeneration(const std::string& cause);

  // For COMPOSER_HUB: "unix:/path".
  std::string address() const;

 private:
  class Service;

  explicit WorkerHub(Options options);

  const Options options_;
  std::unique_ptr<Service> service_;  // the services outlive the server
  std::unique_ptr<KeyValueProxy> key_value_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<Listener> listener_;
};

}  // namespace composer
