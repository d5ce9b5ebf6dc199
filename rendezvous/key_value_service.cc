// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/key_value_service.h"

#include <grpcpp/alarm.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "rendezvous/grpc_settings.h"

namespace composer {
namespace {

grpc::ServerUnaryReactor* Answer(grpc::CallbackServerContext* context, const absl::Status& status) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(ToGrpc(status));
  return reactor;
}

// One waiting Get. The store calls back exactly once, whoever is first: the keys, the deadline, the caller's
// cancellation or the generation's end.
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

absl::Status KeyValueService::CheckJob(const proto::Caller& caller) const {
  if (caller.job() == job_) return absl::OkStatus();
  return absl::AbortedError(absl::StrCat("this key-value store serves job \"", job_, "\", not \"", caller.job(), "\""));
}

grpc::ServerUnaryReactor* KeyValueService::Set(grpc::CallbackServerContext* context, const proto::SetRequest* request,
                                               proto::SetReply*) {
  absl::Status status = CheckJob(request->caller());
  if (status.ok()) {
    std::vector<std::pair<std::string, std::string>> entries;
    entries.reserve(request->entries_size());
    for (const proto::KeyAndValue& entry : request->entries()) entries.emplace_back(entry.key(), entry.value());
    status = store_->Set(request->caller().generation(), std::move(entries));
  }
  return Answer(context, status);
}

grpc::ServerUnaryReactor* KeyValueService::Get(grpc::CallbackServerContext* context, const proto::GetRequest* request,
                                               proto::GetReply* reply) {
  if (absl::Status status = CheckJob(request->caller()); !status.ok()) return Answer(context, status);
  auto* reactor = new GetReactor(store_, reply);
  reactor->Start(*request);
  return reactor;
}

grpc::ServerUnaryReactor* KeyValueService::Add(grpc::CallbackServerContext* context, const proto::AddRequest* request,
                                               proto::AddReply* reply) {
  if (absl::Status status = CheckJob(request->caller()); !status.ok()) return Answer(context, status);
  const auto sum = store_->Add(request->caller().generation(), request->key(), request->amount());
  if (sum.ok()) reply->set_value(*sum);
  return Answer(context, sum.status());
}

grpc::ServerUnaryReactor* KeyValueService::CompareSet(grpc::CallbackServerContext* context,
                                                      const proto::CompareSetRequest* request,
                                                      proto::CompareSetReply* reply) {
  if (absl::Status status = CheckJob(request->caller()); !status.ok()) return Answer(context, status);
  auto value =
      store_->CompareSet(request->caller().generation(), request->key(), request->expected(), request->desired());
  if (value.ok()) reply->set_value(*std::move(value));
  return Answer(context, value.status());
}

grpc::ServerUnaryReactor* KeyValueService::Check(grpc::CallbackServerContext* context,
                                                 const proto::CheckRequest* request, proto::CheckReply* reply) {
  if (absl::Status status = CheckJob(request->caller()); !status.ok()) return Answer(context, status);
  const auto present = store_->Check(request->caller().generation(), {request->keys().begin(), request->keys().end()});
  if (present.ok()) reply->set_all_present(*present);
  return Answer(context, present.status());
}

grpc::ServerUnaryReactor* KeyValueService::Delete(grpc::CallbackServerContext* context,
                                                  const proto::DeleteRequest* request, proto::DeleteReply* reply) {
  if (absl::Status status = CheckJob(request->caller()); !status.ok()) return Answer(context, status);
  const auto deleted = store_->Delete(request->caller().generation(), request->key());
  if (deleted.ok()) reply->set_deleted(*deleted);
  return Answer(context, deleted.status());
}

grpc::ServerUnaryReactor* KeyValueService::Count(grpc::CallbackServerContext* context,
                                                 const proto::CountRequest* request, proto::CountReply* reply) {
  if (absl::Status status = CheckJob(request->caller()); !status.ok()) return Answer(context, status);
  const auto count = store_->Count(request->caller().generation());
  if (count.ok()) reply->set_count(*count);
  return Answer(context, count.status());
}

}  // namespace composer
