// The key-value store as a launcher offers it to its workers: each call is passed on to the rendezvous, with the
// caller's deadline and cancellation, and the answer comes back as it is. While the rendezvous is away (UNAVAILABLE) a
// call is tried again until its own deadline, so that workers do not notice. Reads of write-once keys are answered from
// the launcher's cache; one read a key goes upstream. Holds no thread while a call waits.
//
// A change whose answer was lost is sent again with the number that it had, so that it is made once (change_log.h). If the
// answer was lost with the coordinator, the change is made again unless a launcher remembers it: what none remembers is not in
// the restored store.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "proto/rendezvous.grpc.pb.h"
#include "rendezvous/store/key_value_upstream.h"

namespace composer {

class KeyValueProxy final : public proto::KeyValue::CallbackService {
 public:
  explicit KeyValueProxy(std::shared_ptr<KeyValueUpstream> upstream) : upstream_(std::move(upstream)) {}

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
  const std::shared_ptr<KeyValueUpstream> upstream_;
};

}  // namespace composer
