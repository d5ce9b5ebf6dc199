// A launcher's control service, as used by `composer status`, `top`, `save`, `profile`, `stacks`, `drain` and
// `stop`.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/channel.h>

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/control.grpc.pb.h"
#include "rendezvous/transport/credentials.h"

namespace composer {

class ControlClient {
 public:
  // `address` is unix:/path or host:port. Returns the errors of OpenChannel.
  static absl::StatusOr<ControlClient> Open(const std::string& address, const Credentials& credentials);

  // These return kUnavailable when the launcher has ended or does not answer within 5 s.
  absl::StatusOr<proto::JobStatus> Status();
  absl::Status Save(const std::string& who);
  absl::Status Profile(const std::string& who);
  absl::Status Stacks(const std::string& who);
  absl::Status Drain(const std::string& who);
  absl::Status Stop(const std::string& who);

 private:
  explicit ControlClient(const std::shared_ptr<grpc::Channel>& channel) : stub_(proto::Control::NewStub(channel)) {}
  std::unique_ptr<proto::Control::Stub> stub_;
};

}  // namespace composer
