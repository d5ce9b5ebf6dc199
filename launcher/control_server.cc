// SPDX-License-Identifier: Apache-2.0
#include "launcher/control_server.h"

#include <grpcpp/grpcpp.h>

#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "proto/control.grpc.pb.h"
#include "rendezvous/grpc_settings.h"
#include "rendezvous/listener.h"

namespace composer {
namespace {

constexpr int kMaxConnections = 64;  // of each socket
constexpr int kMaxRequestBytes = 64 << 10;
constexpr size_t kMaxWho = 200;

}  // namespace

class ControlServer::Service final : public proto::Control::CallbackService {
 public:
  explicit Service(const Options& options) : handler_(options.handler), complete_(options.complete) {}

  grpc::ServerUnaryReactor* Status(grpc::CallbackServerContext* context, const proto::StatusRequest*,
                                   proto::JobStatus* reply) override {
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    handler_({.kind = ControlRequest::Kind::kStatus, .answer = [this, reactor, reply](const proto::JobStatus& status) {
                *reply = status;
                if (!complete_) return reactor->Finish(grpc::Status::OK);
                std::thread([complete = complete_, reactor, reply] {
                  complete(*reply);
                  reactor->Finish(grpc::Status::OK);
                }).detach();
              }});
    return reactor;
  }
  grpc::ServerUnaryReactor* Drain(grpc::CallbackServerContext* context, const proto::EndRequest* request,
                                  proto::EndReply*) override {
    return End(context, ControlRequest::Kind::kDrain, *request);
  }
  grpc::ServerUnaryReactor* Stop(grpc::CallbackServerContext* context, const proto::EndRequest* request,
                                 proto::EndReply*) override {
    return End(context, ControlRequest::Kind::kStop, *request);
  }

 private:
  grpc::ServerUnaryReactor* End(grpc::CallbackServerContext* context, ControlRequest::Kind kind,
                                const proto::EndRequest& request) {
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    std::string who = request.who().substr(0, kMaxWho);
    if (!absl::StartsWith(context->peer(), "unix:")) absl::StrAppend(&who, " at ", context->peer());
    for (char& c : who) {
      if (static_cast<unsigned char>(c) < ' ' || c == 127) c = '?';  // it goes to a terminal
    }
    handler_({.kind = kind, .who = std::move(who), .answer = [reactor](const proto::JobStatus&) {
                reactor->Finish(grpc::Status::OK);
              }});
    return reactor;
  }

  const Handler handler_;
  const std::function<void(proto::JobStatus&)> complete_;
};

ControlServer::ControlServer() = default;

absl::StatusOr<std::unique_ptr<ControlServer>> ControlServer::Start(const Options& options) {
  std::unique_ptr<ControlServer> result(new ControlServer);
  grpc::ServerBuilder builder;
  ApplyServerSettings(builder, Link::kLocal);
  builder.SetMaxReceiveMessageSize(kMaxRequestBytes);
  result->service_ = std::make_unique<Service>(options);
  builder.RegisterService(result->service_.get());
  ASSIGN_OR_RETURN(result->unix_,
                   Listener::Open({.unix_path = options.socket_path, .max_connections = kMaxConnections}));
  result->unix_->AddTo(builder, grpc::InsecureServerCredentials());
  if (options.port >= 0) {
    const bool local = absl::StartsWith(options.address, "127.") || options.address == "::1";
    if (!local && !options.credentials.secure()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--control-port on ", options.address, " needs the job's token or certificates: anybody could stop the job"));
    }
    ASSIGN_OR_RETURN(
        result->tcp_,
        Listener::Open({.address = options.address, .port = options.port, .max_connections = kMaxConnections}));
    result->tcp_->AddTo(builder, options.credentials.ForServer());
  }
  result->server_ = builder.BuildAndStart();
  if (result->server_ == nullptr) return absl::InternalError("the control service did not start");
  result->unix_->Serve();
  if (result->tcp_ != nullptr) result->tcp_->Serve();
  return result;
}

ControlServer::~ControlServer() {
  unix_.reset();
  tcp_.reset();
  if (server_ == nullptr) return;
  server_->Shutdown(std::chrono::system_clock::now());
  server_->Wait();
}

int ControlServer::port() const { return tcp_ == nullptr ? 0 : tcp_->port(); }

}  // namespace composer
