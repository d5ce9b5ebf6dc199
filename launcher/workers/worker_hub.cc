// SPDX-License-Identifier: Apache-2.0
#include "launcher/workers/worker_hub.h"

#include <grpcpp/grpcpp.h>

#include <deque>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "base/status_macros.h"
#include "proto/worker.grpc.pb.h"
#include "rendezvous/store/key_value_proxy.h"
#include "rendezvous/transport/grpc_settings.h"
#include "rendezvous/transport/listener.h"

namespace composer {

constexpr int kMaxWorkerConnections = 16 * 1024;  // a worker has a few

class WorkerHub::Service final : public proto::WorkerHub::CallbackService {
 public:
  Service(std::string job, Handler handler) : job_(std::move(job)), handler_(std::move(handler)) {}

  grpc::ServerBidiReactor<proto::WorkerMessage, proto::LauncherMessage>* Attach(grpc::CallbackServerContext*) override;

  void BeginGeneration(uint64_t generation) {
    absl::MutexLock lock(&mutex_);
    generation_ = generation;
    pending_.reset();
  }
  void Broadcast(const proto::LauncherMessage& message);  // also reaches workers that attach later
  void SendToAttached(const proto::LauncherMessage& message);

 private:
  class Attachment;

  // Judges the first message. OK means that it is a worker of ours, which is now on the list.
  grpc::Status Admit(Attachment* attachment, const proto::WorkerMessage& first);
  void Forget(Attachment* attachment) {
    absl::MutexLock lock(&mutex_);
    attached_.erase(attachment);
  }

  const std::string job_;
  const Handler handler_;
  absl::Mutex mutex_;
  uint64_t generation_ ABSL_GUARDED_BY(mutex_) = 0;
  std::set<Attachment*> attached_ ABSL_GUARDED_BY(mutex_);
  std::optional<proto::LauncherMessage> pending_ ABSL_GUARDED_BY(mutex_);  // for workers that attach later
};

// One worker's stream; deletes itself when it ends.
class WorkerHub::Service::Attachment final
    : public grpc::ServerBidiReactor<proto::WorkerMessage, proto::LauncherMessage> {
 public:
  explicit Attachment(Service& service) : service_(service) { StartRead(&incoming_); }

  void Send(const proto::LauncherMessage& message) {
    absl::MutexLock lock(&mutex_);
    if (finished_) return;
    outgoing_.push_back(message);
    if (outgoing_.size() == 1) StartWrite(&outgoing_.front());
  }

  void OnReadDone(bool ok) override {
    if (!ok) return End(grpc::Status::OK);
    if (!rank_.has_value()) {
      rank_ = incoming_.hello().rank();
      generation_ = incoming_.caller().generation();
      if (const grpc::Status status = service_.Admit(this, incoming_); !status.ok()) return End(status);
    }
    service_.handler_({generation_, *rank_, incoming_});
    StartRead(&incoming_);
  }

  void OnWriteDone(bool ok) override {
    absl::MutexLock lock(&mutex_);
    if (!ok || finished_) return;
    outgoing_.pop_front();
    if (!outgoing_.empty()) StartWrite(&outgoing_.front());
  }

  void OnDone() override {
    service_.Forget(this);
    delete this;
  }

 private:
  void End(const grpc::Status& status) {
    absl::MutexLock lock(&mutex_);
    finished_ = true;
    Finish(status);
  }

  Service& service_;
  std::optional<int> rank_;  // set by the first message, like generation_
  uint64_t generation_ = 0;
  proto::WorkerMessage incoming_;  // owned by the read in flight
  absl::Mutex mutex_;
  bool finished_ ABSL_GUARDED_BY(mutex_) = false;
  std::deque<proto::LauncherMessage> outgoing_ ABSL_GUARDED_BY(mutex_);  // the front is being written
};

grpc::ServerBidiReactor<proto::WorkerMessage, proto::LauncherMessage>* WorkerHub::Service::Attach(
    grpc::CallbackServerContext*) {
  return new Attachment(*this);
}

grpc::Status WorkerHub::Service::Admit(Attachment* attachment, const proto::WorkerMessage& first) {
  if (!first.has_hello()) return {grpc::StatusCode::INVALID_ARGUMENT, "the first message must be Hello"};
  const proto::Caller& caller = first.caller();
  absl::MutexLock lock(&mutex_);
  if (caller.job() != job_ || caller.generation() != generation_) {
    return {grpc::StatusCode::ABORTED, absl::StrCat("this launcher runs job ", job_, " generation ", generation_,
                                                    ", not job ", caller.job(), " generation ", caller.generation())};
  }
  attached_.insert(attachment);
  if (pending_.has_value()) attachment->Send(*pending_);
  return grpc::Status::OK;
}

void WorkerHub::Service::Broadcast(const proto::LauncherMessage& message) {
  absl::MutexLock lock(&mutex_);
  pending_ = message;
  for (Attachment* attachment : attached_) attachment->Send(message);
}

void WorkerHub::Service::SendToAttached(const proto::LauncherMessage& message) {
  absl::MutexLock lock(&mutex_);
  for (Attachment* attachment : attached_) attachment->Send(message);
}

WorkerHub::WorkerHub(Options options)
    : options_(std::move(options)),
      service_(std::make_unique<Service>(options_.job, options_.handler)),
      key_value_(std::make_unique<KeyValueProxy>(options_.upstream)) {}

absl::StatusOr<std::unique_ptr<WorkerHub>> WorkerHub::Start(Options options) {
  ASSIGN_OR_RETURN(auto listener,
                   Listener::Open({.unix_path = options.socket_path, .max_connections = kMaxWorkerConnections}));
  std::unique_ptr<WorkerHub> hub(new WorkerHub(std::move(options)));
  grpc::ServerBuilder builder;
  ApplyServerSettings(builder, Link::kLocal);
  listener->AddTo(builder, grpc::InsecureServerCredentials());
  builder.RegisterService(hub->service_.get());
  builder.RegisterService(hub->key_value_.get());
  for (grpc::Service* service : hub->options_.more_services) builder.RegisterService(service);
  hub->server_ = builder.BuildAndStart();
  if (hub->server_ == nullptr) return absl::InternalError(absl::StrCat("cannot serve ", hub->options_.socket_path));
  hub->listener_ = std::move(listener);
  hub->listener_->Serve();
  return hub;
}

WorkerHub::~WorkerHub() {
  listener_.reset();
  if (server_ == nullptr) return;
  server_->Shutdown(std::chrono::system_clock::now());
  server_->Wait();
}

void WorkerHub::BeginGeneration(uint64_t generation) { service_->BeginGeneration(generation); }

void WorkerHub::Drain(const std::string& reason) {
  proto::LauncherMessage message;
  message.mutable_drain()->set_reason(reason);
  service_->Broadcast(message);
}

void WorkerHub::Save(const std::string& reason) {
  proto::LauncherMessage message;
  message.mutable_save()->set_reason(reason);
  service_->SendToAttached(message);
}

void WorkerHub::Profile() {
  proto::LauncherMessage message;
  message.mutable_profile();
  service_->SendToAttached(message);
}

void WorkerHub::WriteStacks(const std::string& folder) {
  proto::LauncherMessage message;
  message.mutable_stacks()->set_folder(folder);
  service_->SendToAttached(message);
}

void WorkerHub::EndGeneration(const std::string& cause) {
  proto::LauncherMessage message;
  message.mutable_generation_over()->set_cause(cause);
  service_->Broadcast(message);
}

std::string WorkerHub::address() const { return absl::StrCat("unix:", options_.socket_path); }

}  // namespace composer
