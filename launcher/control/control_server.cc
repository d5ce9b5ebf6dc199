// SPDX-License-Identifier: Apache-2.0
#include "launcher/control/control_server.h"

#include <grpcpp/grpcpp.h>

#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "base/log.h"
#include "base/printable.h"
#include "base/status_macros.h"
#include "proto/control.grpc.pb.h"
#include "rendezvous/transport/grpc_settings.h"
#include "rendezvous/transport/listener.h"

namespace composer {
namespace {

constexpr int kMaxControlConnections = 64;  // for each socket
constexpr int kMaxRequestBytes = 64 << 10;
constexpr size_t kMaxWho = 200;
constexpr absl::Duration kShutdownLimit = absl::Seconds(3);  // longer than ControlServer::Options::complete takes

}  // namespace

class ControlServer::Service final : public proto::Control::CallbackService {
 public:
  explicit Service(const Options& options) : handler_(options.handler), complete_(options.complete) {}

  grpc::ServerUnaryReactor* Status(grpc::CallbackServerContext* context, const proto::StatusRequest*,
                                   proto::JobStatus* reply) override {
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    handler_({.kind = ControlRequest::Kind::kStatus,
              .answer = ControlAnswer([this, reactor, reply](absl::StatusOr<proto::JobStatus> status) {
                if (!status.ok()) return reactor->Finish(ToGrpc(status.status()));
                *reply = *std::move(status);
                if (!complete_) return reactor->Finish(grpc::Status::OK);
                std::thread([complete = complete_, reactor, reply] {
                  complete(*reply);
                  reactor->Finish(grpc::Status::OK);
                }).detach();
              })});
    return reactor;
  }
  grpc::ServerUnaryReactor* Save(grpc::CallbackServerContext* context, const proto::SaveRequest* request,
                                 proto::SaveReply*) override {
    return Ask(context, ControlRequest::Kind::kSave, request->who());
  }
  grpc::ServerUnaryReactor* Profile(grpc::CallbackServerContext* context, const proto::InspectRequest* request,
                                    proto::InspectReply*) override {
    return Ask(context, ControlRequest::Kind::kProfile, request->who());
  }
  grpc::ServerUnaryReactor* Stacks(grpc::CallbackServerContext* context, const proto::InspectRequest* request,
                                   proto::InspectReply*) override {
    return Ask(context, ControlRequest::Kind::kStacks, request->who());
  }
  grpc::ServerUnaryReactor* Drain(grpc::CallbackServerContext* context, const proto::EndRequest* request,
                                  proto::EndReply*) override {
    return Ask(context, ControlRequest::Kind::kDrain, request->who());
  }
  grpc::ServerUnaryReactor* Stop(grpc::CallbackServerContext* context, const proto::EndRequest* request,
                                 proto::EndReply*) override {
    return Ask(context, ControlRequest::Kind::kStop, request->who());
  }

 private:
  grpc::ServerUnaryReactor* Ask(grpc::CallbackServerContext* context, ControlRequest::Kind kind,
                                const std::string& asker) {
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    std::string who = asker.substr(0, kMaxWho);
    if (!absl::StartsWith(context->peer(), "unix:")) absl::StrAppend(&who, " at ", context->peer());
    handler_({.kind = kind,
              .who = Printable(who),
              .answer = ControlAnswer([reactor](const absl::StatusOr<proto::JobStatus>& status) {
                reactor->Finish(ToGrpc(status.status()));
              })});
    return reactor;
  }

  const Handler handler_;
  const std::function<void(proto::JobStatus&)> complete_;
};

ControlAnswer::~ControlAnswer() {
  if (receiver_) receiver_(absl::UnavailableError("the job is ending"));
}

void ControlAnswer::Give(proto::JobStatus status) { std::exchange(receiver_, nullptr)(std::move(status)); }

ControlServer::ControlServer() = default;

absl::StatusOr<std::unique_ptr<ControlServer>> ControlServer::Start(const Options& options) {
  std::unique_ptr<ControlServer> result(new ControlServer);
  grpc::ServerBuilder builder;
  ApplyServerSettings(builder, Link::kLocal);
  builder.SetMaxReceiveMessageSize(kMaxRequestBytes);
  result->service_ = std::make_unique<Service>(options);
  builder.RegisterService(result->service_.get());
  ASSIGN_OR_RETURN(result->unix_, Listener::Open({.unix_path = options.socket_path,
                                                  .max_connections = kMaxControlConnections,
                                                  .oldest_goes = true}));
  result->unix_->AddTo(builder, grpc::InsecureServerCredentials());
  if (options.port >= 0) {
    const bool local = absl::StartsWith(options.address, "127.") || options.address == "::1";
    if (!local && !options.credentials.secure()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--control-port on ", options.address, " needs the job's token or certificates: anybody could stop the job"));
    }
    ASSIGN_OR_RETURN(result->tcp_, Listener::Open({.address = options.address,
                                                   .port = options.port,
                                                   .max_connections = kMaxControlConnections,
                                                   .oldest_goes = true}));
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
  auto ended = std::make_shared<absl::Notification>();
  std::thread shutdown([server = server_, ended] {
    server->Shutdown(std::chrono::system_clock::now());
    server->Wait();
    ended->Notify();
  });
  if (ended->WaitForNotificationWithTimeout(kShutdownLimit)) {
    shutdown.join();
    return;
  }
  LOG(WARNING) << "a control request has no answer; leaving without";
  shutdown.detach();
  [[maybe_unused]] const auto* const still_used = service_.release();
}

int ControlServer::port() const { return tcp_ == nullptr ? 0 : tcp_->port(); }

}  // namespace composer
