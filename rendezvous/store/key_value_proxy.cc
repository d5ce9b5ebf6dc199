// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/store/key_value_proxy.h"

#include <grpcpp/alarm.h>

#include <functional>
#include <utility>

#include "absl/time/time.h"
#include "base/retry.h"
#include "rendezvous/store/key_value_get.h"
#include "rendezvous/store/key_value_sweep.h"
#include "rendezvous/transport/grpc_settings.h"

namespace composer {
namespace {

using Stub = proto::KeyValue::Stub::async_interface;
template <typename Request, typename Reply>
using Method = void (Stub::*)(grpc::ClientContext*, const Request*, Reply*, std::function<void(grpc::Status)>);

bool IsAway(const grpc::Status& status) { return status.error_code() == grpc::StatusCode::UNAVAILABLE; }

// Calls `again` some time after the `tries`-th failure.
std::unique_ptr<grpc::Alarm> RetryLater(int tries, std::function<void()> again) {
  auto alarm = std::make_unique<grpc::Alarm>();  // a new one each time: the old one's callback may be running
  const absl::Duration delay = *DelayBeforeRetry(kWhileAway, tries, absl::ZeroDuration(), UniformRandom());
  alarm->Set(DeadlineAfter(delay), [again = std::move(again)](bool) { again(); });
  return alarm;
}

template <typename Reply>
proto::KeyMemory Change(const std::string& key, const std::string& value, const Reply& answer, bool deleted = false) {
  proto::KeyMemory change;
  change.set_key(key);
  change.set_value(value);
  change.set_revision(answer.revision());
  change.set_deleted(deleted);
  *change.mutable_made() = answer.unsettled();
  return change;
}

// One call on its way. The reply belongs to the caller's side, which lives until OnDone; a request that changes keys
// gets its number here.
template <typename Request, typename Reply>
class Forward final : public grpc::ServerUnaryReactor {
 public:
  using OnAnswer = std::function<void(const Request&, const Reply&)>;

  Forward(grpc::CallbackServerContext* context, std::shared_ptr<KeyValueUpstream> upstream,
          Method<Request, Reply> method, const Request* request, Reply* reply, OnAnswer on_answer = {})
      : caller_(context),
        upstream_(std::move(upstream)),
        method_(method),
        request_(*request),
        reply_(reply),
        on_answer_(std::move(on_answer)) {
    if constexpr (kChanges) *request_.mutable_id() = upstream_->NumberChange();
    Try();
  }
  void OnDone() override { delete this; }

 private:
  static constexpr bool kChanges = requires(Request request) { request.mutable_id(); };

  void Try() {
    reply_->Clear();
    context_ = grpc::ClientContext::FromCallbackServerContext(*caller_);  // inherits its deadline and cancellation
    stub_ = upstream_->stub();
    (stub_->async()->*method_)(context_.get(), &request_, reply_, [this](grpc::Status status) { Take(status); });
  }

  void Take(const grpc::Status& status) {
    if (IsAway(status) && !caller_->IsCancelled()) {
      alarm_ = RetryLater(++tries_, [this] { Try(); });
      return;
    }
    if (status.ok() && on_answer_) on_answer_(request_, *reply_);
    if constexpr (kChanges) upstream_->SettleChange(request_.id().number());
    Finish(status);
  }

  grpc::CallbackServerContext* const caller_;
  const std::shared_ptr<KeyValueUpstream> upstream_;
  const Method<Request, Reply> method_;
  Request request_;
  Reply* const reply_;
  const OnAnswer on_answer_;
  std::shared_ptr<proto::KeyValue::Stub> stub_;  // must outlive its call
  std::unique_ptr<grpc::ClientContext> context_;
  std::unique_ptr<grpc::Alarm> alarm_;
  int tries_ = 0;
};

// Reads one write-once key upstream into the cache, for all who wait for it; deletes itself.
class KeyRead {
 public:
  KeyRead(std::shared_ptr<KeyValueUpstream> upstream, std::shared_ptr<KeyValueStore> cache, const proto::Caller& caller,
          const std::string& key)
      : upstream_(std::move(upstream)), cache_(std::move(cache)) {
    *request_.mutable_caller() = caller;
    request_.add_keys(key);
    request_.set_wait_millis(-1);  // as long as the generation lasts
    upstream_->CountReads(1);
    Try();
  }

 private:
  void Try() {
    context_ = std::make_unique<grpc::ClientContext>();
    stub_ = upstream_->stub();
    stub_->async()->Get(context_.get(), &request_, &reply_, [this](grpc::Status status) { Take(status); });
  }

  void Take(const grpc::Status& status) {
    const uint64_t generation = request_.caller().generation();
    if (IsAway(status) && upstream_->Cache(generation) == cache_) {
      alarm_ = RetryLater(++tries_, [this] { Try(); });
      return;
    }
    if (status.ok() && reply_.values_size() == 1) {
      // The generation may be over by now.
      cache_->Set(generation, {{request_.keys(0), reply_.values(0)}}).IgnoreError();
    } else {
      upstream_->ReleaseRead(generation, request_.keys(0));
      cache_->End(generation, status.error_message());
    }
    delete this;
  }

  const std::shared_ptr<KeyValueUpstream> upstream_;
  const std::shared_ptr<KeyValueStore> cache_;
  proto::GetRequest request_;
  proto::GetReply reply_;
  std::shared_ptr<proto::KeyValue::Stub> stub_;
  std::unique_ptr<grpc::ClientContext> context_;
  std::unique_ptr<grpc::Alarm> alarm_;
  int tries_ = 0;
};

}  // namespace

grpc::ServerUnaryReactor* KeyValueProxy::Set(grpc::CallbackServerContext* context, const proto::SetRequest* request,
                                             proto::SetReply* reply) {
  return new Forward<proto::SetRequest, proto::SetReply>(
      context, upstream_, &Stub::Set, request, reply,
      [upstream = upstream_](const proto::SetRequest& set, const proto::SetReply& answer) {
        for (const proto::KeyAndValue& entry : set.entries())
          upstream->Remember(set.caller().generation(), Change(entry.key(), entry.value(), answer));
        ForgetDeletedKeys(upstream, set.caller());
      });
}

grpc::ServerUnaryReactor* KeyValueProxy::Get(grpc::CallbackServerContext* context, const proto::GetRequest* request,
                                             proto::GetReply* reply) {
  const uint64_t generation = request->caller().generation();
  const auto cache = request->write_once() ? upstream_->Cache(generation) : nullptr;
  if (cache == nullptr) {
    upstream_->CountReads(request->keys_size());
    return new Forward<proto::GetRequest, proto::GetReply>(context, upstream_, &Stub::Get, request, reply);
  }
  // The answer may free the request at once, so the keys are claimed first.
  std::vector<std::string> mine;
  for (const std::string& key : request->keys()) {
    if (upstream_->ClaimRead(generation, key)) mine.push_back(key);
  }
  const proto::Caller caller = request->caller();
  grpc::ServerUnaryReactor* const reactor = AnswerGet(cache, *request, reply);
  for (const std::string& key : mine) new KeyRead(upstream_, cache, caller, key);
  return reactor;
}

grpc::ServerUnaryReactor* KeyValueProxy::Add(grpc::CallbackServerContext* context, const proto::AddRequest* request,
                                             proto::AddReply* reply) {
  return new Forward<proto::AddRequest, proto::AddReply>(
      context, upstream_, &Stub::Add, request, reply,
      [upstream = upstream_](const proto::AddRequest& add, const proto::AddReply& answer) {
        upstream->Remember(add.caller().generation(), Change(add.key(), std::to_string(answer.value()), answer));
        ForgetDeletedKeys(upstream, add.caller());
      });
}

grpc::ServerUnaryReactor* KeyValueProxy::CompareSet(grpc::CallbackServerContext* context,
                                                    const proto::CompareSetRequest* request,
                                                    proto::CompareSetReply* reply) {
  return new Forward<proto::CompareSetRequest, proto::CompareSetReply>(
      context, upstream_, &Stub::CompareSet, request, reply,
      [upstream = upstream_](const proto::CompareSetRequest& set, const proto::CompareSetReply& answer) {
        upstream->Remember(set.caller().generation(), Change(set.key(), set.desired(), answer));
        ForgetDeletedKeys(upstream, set.caller());
      });
}

grpc::ServerUnaryReactor* KeyValueProxy::Check(grpc::CallbackServerContext* context, const proto::CheckRequest* request,
                                               proto::CheckReply* reply) {
  return new Forward<proto::CheckRequest, proto::CheckReply>(context, upstream_, &Stub::Check, request, reply);
}

grpc::ServerUnaryReactor* KeyValueProxy::Delete(grpc::CallbackServerContext* context,
                                                const proto::DeleteRequest* request, proto::DeleteReply* reply) {
  return new Forward<proto::DeleteRequest, proto::DeleteReply>(
      context, upstream_, &Stub::Delete, request, reply,
      [upstream = upstream_](const proto::DeleteRequest& erase, const proto::DeleteReply& answer) {
        upstream->Remember(erase.caller().generation(), Change(erase.key(), "", answer, /*deleted=*/true));
      });
}

grpc::ServerUnaryReactor* KeyValueProxy::Count(grpc::CallbackServerContext* context, const proto::CountRequest* request,
                                               proto::CountReply* reply) {
  return new Forward<proto::CountRequest, proto::CountReply>(context, upstream_, &Stub::Count, request, reply);
}

}  // namespace composer
