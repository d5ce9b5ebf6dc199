// A waiting Get over gRPC. It is answered by the keys, its deadline, the caller's cancellation or the generation's end,
// whichever comes first, and holds no thread.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "proto/rendezvous.grpc.pb.h"
#include "rendezvous/store/key_value.h"

namespace composer {

// Returned by a service's Get handler. wait_millis: 0 answers at once, negative waits as long as the generation or the
// call lasts.
grpc::ServerUnaryReactor* AnswerGet(std::shared_ptr<KeyValueStore> store, const proto::GetRequest& request,
                                    proto::GetReply* reply);

}  // namespace composer
