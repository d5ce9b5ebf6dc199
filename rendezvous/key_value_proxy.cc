// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/key_value_proxy.h"

#include <functional>

namespace composer {
namespace {

using Upstream = proto::KeyValue::Stub::async_interface;

// One call on its way. Request and reply belong to the caller's side, which lives until OnDone.
template <typename Request, typename Reply>
class Forward final : public grpc::ServerUnaryReactor {
 public:
  using Method = void (Upstream::*)(grpc::ClientContext*, const Request*, Reply*, std::function<void(grpc::Status)>);

  Forward(grpc::CallbackServerContext* context, Upstream* upstream, Method method, const Request* request, Reply* reply)
      : context_(grpc::ClientContext::FromCallbackServerContext(*context)) {
    (upstream->*method)(context_.get(), request, reply, [this](grpc::Status status) { Finish(status); });
  }
  void OnDone() override { delete this; }

 private:
  const std::unique_ptr<grpc::ClientContext> context_;  // takes over the caller's deadline and cancellation
};

}  // namespace

KeyValueProxy::KeyValueProxy(const std::shared_ptr<grpc::Channel>& upstream)
    : upstream_(proto::KeyValue::NewStub(upstream)) {}

grpc::ServerUnaryReactor* KeyValueProxy::Set(grpc::CallbackServerContext* context, const proto::SetRequest* request,
                                             proto::SetReply* reply) {
  return new Forward<proto::SetRequest, proto::SetReply>(context, upstream_->async(), &Upstream::Set, request, reply);
}

grpc::ServerUnaryReactor* KeyValueProxy::Get(grpc::CallbackServerContext* context, const proto::GetRequest* request,
                                             proto::GetReply* reply) {
  return new Forward<proto::GetRequest, proto::GetReply>(context, upstream_->async(), &Upstream::Get, request, reply);
}

grpc::ServerUnaryReactor* KeyValueProxy::Add(grpc::CallbackServerContext* context, const proto::AddRequest* request,
                                             proto::AddReply* reply) {
  return new Forward<proto::AddRequest, proto::AddReply>(context, upstream_->async(), &Upstream::Add, request, reply);
}

grpc::ServerUnaryReactor* KeyValueProxy::CompareSet(grpc::CallbackServerContext* context,
                                                    const proto::CompareSetRequest* request,
                                                    proto::CompareSetReply* reply) {
  return new Forward<proto::CompareSetRequest, proto::CompareSetReply>(context, upstream_->async(),
                                                                       &Upstream::CompareSet, request, reply);
}

grpc::ServerUnaryReactor* KeyValueProxy::Check(grpc::CallbackServerContext* context, const proto::CheckRequest* request,
                                               proto::CheckReply* reply) {
  return new Forward<proto::CheckRequest, proto::CheckReply>(context, upstream_->async(), &Upstream::Check, request,
                                                             reply);
}

grpc::ServerUnaryReactor* KeyValueProxy::Delete(grpc::CallbackServerContext* context,
                                                const proto::DeleteRequest* request, proto::DeleteReply* reply) {
  return new Forward<proto::DeleteRequest, proto::DeleteReply>(context, upstream_->async(), &Upstream::Delete, request,
                                                               reply);
}

grpc::ServerUnaryReactor* KeyValueProxy::Count(grpc::CallbackServerContext* context, const proto::CountRequest* request,
                                               proto::CountReply* reply) {
  return new Forward<proto::CountRequest, proto::CountReply>(context, upstream_->async(), &Upstream::Count, request,
                                                             reply);
}

}  // namespace composer
