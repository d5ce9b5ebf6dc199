// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/store/key_value_get.h"

#include <grpcpp/alarm.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "rendezvous/transport/grpc_settings.h"

namespace composer {
namespace {

// The store calls back exactly once, whichever comes first: the keys, the deadline, the caller's cancellation or the
// generation's end.
class GetReactor final : public grpc::ServerUnaryReactor {
 public:
  GetReactor(std::shared_ptr<KeyValueStore> store, proto::GetReply* reply) : store_(std::move(store)), reply_(reply) {}

  // gRPC keeps this object until the handler that calls Start has returned.
  void Start(const proto::GetRequest& request) {
    std::vector<std::string> keys(request.keys().begin(), request.keys().end());
    waiter_ = store_->Get(request.caller().generation(), std::move(keys), !request.without_values(),
                          [this](absl::StatusOr<KeyValueStore::Values> values) { Complete(std::move(values)); });
    if (waiter_ == 0 || request.wait_millis() < 0) return;
    const absl::Duration wait = absl::Milliseconds(request.wait_millis());
    alarm_.Set(DeadlineAfter(wait), [store = store_, waiter = waiter_, wait](bool expired) {  // may outlive this
      if (expired)
        store->Cancel(waiter, absl::DeadlineExceededError(absl::StrCat("get: waited ", absl::FormatDuration(wait))));
    });
  }

  void OnCancel() override { store_->Cancel(waiter_, absl::CancelledError("get: the caller is gone")); }
  void OnDone() override { delete this; }

 private:
  void Complete(absl::StatusOr<KeyValueStore::Values> values) {
    if (values.ok()) {
      for (std::string& value : *values) reply_->add_values(std::move(value));
    }
    Finish(ToGrpc(values.status()));
  }

  const std::shared_ptr<KeyValueStore> store_;
  proto::GetReply* const reply_;
  KeyValueStore::WaiterId waiter_ = 0;
  grpc::Alarm alarm_;
};

}  // namespace

grpc::ServerUnaryReactor* AnswerGet(std::shared_ptr<KeyValueStore> store, const proto::GetRequest& request,
                                    proto::GetReply* reply) {
  auto* reactor = new GetReactor(std::move(store), reply);
  reactor->Start(request);
  return reactor;
}

}  // namespace composer
