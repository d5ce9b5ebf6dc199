// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/store/key_value_service.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "rendezvous/store/key_value_get.h"
#include "rendezvous/transport/grpc_settings.h"

namespace composer {
namespace {

grpc::ServerUnaryReactor* Answer(grpc::CallbackServerContext* context, const absl::Status& status) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(ToGrpc(status));
  return reactor;
}

KeyValueStore::Change ChangeOf(const proto::ChangeId& id) {
  return {.id = {id.sender(), id.number(), id.settled()}, .unsettled = {}};
}

template <typename Reply>
void Tell(const KeyValueStore::Change& change, Reply* reply) {
  reply->set_revision(change.revision);
  for (const MadeChange& made : change.unsettled) {
    proto::ChangeMade& told = *reply->add_unsettled();
    told.set_sender(made.sender);
    told.set_number(made.number);
    told.set_revision(made.revision);
    told.set_sum(made.sum);
  }
}

}  // namespace

absl::Status KeyValueService::CheckJob(const proto::Caller& caller) const {
  if (caller.job() == job_) return absl::OkStatus();
  return absl::AbortedError(absl::StrCat("this key-value store serves job \"", job_, "\", not \"", caller.job(), "\""));
}

grpc::ServerUnaryReactor* KeyValueService::Set(grpc::CallbackServerContext* context, const proto::SetRequest* request,
                                               proto::SetReply* reply) {
  absl::Status status = CheckJob(request->caller());
  if (status.ok()) {
    std::vector<std::pair<std::string, std::string>> entries;
    entries.reserve(request->entries_size());
    for (const proto::KeyAndValue& entry : request->entries()) entries.emplace_back(entry.key(), entry.value());
    KeyValueStore::Change change = ChangeOf(request->id());
    status = store_->Set(request->caller().generation(), std::move(entries), &change);
    if (status.ok()) Tell(change, reply);
  }
  return Answer(context, status);
}

grpc::ServerUnaryReactor* KeyValueService::Get(grpc::CallbackServerContext* context, const proto::GetRequest* request,
                                               proto::GetReply* reply) {
  if (absl::Status status = CheckJob(request->caller()); !status.ok()) return Answer(context, status);
  return AnswerGet(store_, *request, reply);
}

grpc::ServerUnaryReactor* KeyValueService::Add(grpc::CallbackServerContext* context, const proto::AddRequest* request,
                                               proto::AddReply* reply) {
  if (absl::Status status = CheckJob(request->caller()); !status.ok()) return Answer(context, status);
  KeyValueStore::Change change = ChangeOf(request->id());
  const auto sum = store_->Add(request->caller().generation(), request->key(), request->amount(), &change);
  if (sum.ok()) reply->set_value(*sum), Tell(change, reply);
  return Answer(context, sum.status());
}

grpc::ServerUnaryReactor* KeyValueService::CompareSet(grpc::CallbackServerContext* context,
                                                      const proto::CompareSetRequest* request,
                                                      proto::CompareSetReply* reply) {
  if (absl::Status status = CheckJob(request->caller()); !status.ok()) return Answer(context, status);
  KeyValueStore::Change change = ChangeOf(request->id());
  auto value = store_->CompareSet(request->caller().generation(), request->key(), request->expected(),
                                  request->desired(), &change);
  if (value.ok()) reply->set_value(*std::move(value)), Tell(change, reply);
  return Answer(context, value.status());
}

grpc::ServerUnaryReactor* KeyValueService::Check(grpc::CallbackServerContext* context,
                                                 const proto::CheckRequest* request, proto::CheckReply* reply) {
  if (absl::Status status = CheckJob(request->caller()); !status.ok()) return Answer(context, status);
  const auto presence = store_->Check(request->caller().generation(), {request->keys().begin(), request->keys().end()});
  if (presence.ok()) {
    reply->set_all_present(presence->absent.empty());
    reply->mutable_absent()->Assign(presence->absent.begin(), presence->absent.end());
    reply->set_revision(presence->revision);
  }
  return Answer(context, presence.status());
}

grpc::ServerUnaryReactor* KeyValueService::Delete(grpc::CallbackServerContext* context,
                                                  const proto::DeleteRequest* request, proto::DeleteReply* reply) {
  if (absl::Status status = CheckJob(request->caller()); !status.ok()) return Answer(context, status);
  KeyValueStore::Change change = ChangeOf(request->id());
  const auto deleted = store_->Delete(request->caller().generation(), request->key(), &change);
  if (deleted.ok()) reply->set_deleted(*deleted), Tell(change, reply);
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
