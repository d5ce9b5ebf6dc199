// The key-value store as a launcher offers it to its workers: each call is passed on to the rendezvous, with the
// caller's deadline and cancellation, and the answer comes back as it is. Holds no thread while a call waits.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <grpcpp/channel.h>

#include <memory>

#include "proto/rendezvous.grpc.pb.h"

namespace composer {

class KeyValueProxy final : public proto::KeyValue::CallbackService {
 public:
  explicit KeyValueProxy(const std::shared_ptr<grpc::Channel>& upstream);

  grpc::ServerUnaryReactor* Set(grpc::CallbackServerContext*, const proto::SetRequest*, proto::SetReply*) override;
  grpc::ServerUnaryReactor* Get(grpc::CallbackServerContext*, const proto::GetRequest*, proto::GetReply*) override;
  grpc::ServerUnaryReactor* Add(grpc::CallbackServerContext*, const proto::AddRequest*, proto::AddReply*) override;
  grpc::ServerUnaryReactor* CompareSet(grpc::CallbackServerContext*, const proto::CompareSetRequest*,
                                       proto::CompareSetReply*) override;
  grpc::ServerUnaryReactor* Check(grpc::CallbackServerContext*, const proto::CheckRequest*,
                                  proto::CheckReply*) override;
  grpc::ServerUnaryReactor* Delete(grpc::CallbackServerContext*, const proto::DeleteRequest*,
                                   proto::DeleteReply*) override;
  grpc::ServerUnaryReactor* Count(grpc::CallbackServerContext*, const proto::CountRequest*,
                                  proto::CountReply*) override;

 private:
  const std::unique_ptr<proto::KeyValue::Stub> upstream_;
};

}  // namespace composer
