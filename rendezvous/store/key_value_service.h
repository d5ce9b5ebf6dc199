// Adapts a KeyValueStore to proto::KeyValue: unpacks, asks the store, answers. A waiting Get holds no thread.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "proto/rendezvous.grpc.pb.h"
#include "rendezvous/store/key_value.h"

namespace composer {

class KeyValueService final : public proto::KeyValue::CallbackService {
 public:
  KeyValueService(std::string job, std::shared_ptr<KeyValueStore> store)
      : job_(std::move(job)), store_(std::move(store)) {}

  grpc::ServerUnaryReactor* Set(grpc::CallbackServerContext*, const proto::SetRequest*, proto::SetReply*) override;
  // wait_millis: 0 answers at once, negative waits as long as the generation or the call lasts.
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
  absl::Status CheckJob(const proto::Caller& caller) const;

  const std::string job_;
  const std::shared_ptr<KeyValueStore> store_;
};

}  // namespace composer
