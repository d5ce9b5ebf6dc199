// The key-value store as a launcher offers it to its workers: each call is forwarded to the rendezvous, with the
// caller's deadline and cancellation, and the answer is passed back unchanged. While the rendezvous is away
// (UNAVAILABLE), a call is retried until its own deadline, so that workers do not notice. Reads of write-once keys are
// answered from the launcher's cache, with one upstream read per key. No thread is held while a call waits.
//
// A change whose answer was lost is sent again with the same number, so that it is made once (change_log.h). If the
// answer was lost together with the coordinator, the change is made again unless a launcher remembers it: what none
// remembers is not in the restored store.
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
