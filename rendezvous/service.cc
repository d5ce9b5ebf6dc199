// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/service.h"

#include <deque>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "rendezvous/transport/grpc_settings.h"

namespace composer {
namespace {

constexpr absl::Duration kPulse = absl::Milliseconds(250);
constexpr absl::Duration kStall = absl::Milliseconds(1250);

std::vector<KeyValueStore::Memory> Memories(const proto::Reattach& reattach) {
  std::vector<KeyValueStore::Memory> memories;
  memories.reserve(reattach.keys_size());
  for (const proto::KeyMemory& key : reattach.keys()) {
    KeyValueStore::Memory& memory =
        memories.emplace_back(KeyValueStore::Memory{key.key(), key.value(), key.revision(), key.deleted(), {}});
    for (const proto::ChangeMade& made : key.made())
      memory.made.push_back({made.sender(), made.number(), made.revision(), made.sum()});
  }
  return memories;
}

absl::Status ToStatus(const proto::Refusal& refusal) {
  if (refusal.done()) return absl::AlreadyExistsError(refusal.message());
  return refusal.passing() ? absl::FailedPreconditionError(refusal.message())
                           : absl::InvalidArgumentError(refusal.message());
}

}  // namespace

// One node's stream. Guarded by the service's lock, except for the message being read. gRPC runs reactions on its own
// threads, never inside a StartWrite or Finish, so these may be called with the lock held.
class RendezvousService::Stream final : public grpc::ServerBidiReactor<proto::NodeMessage, proto::CoordinatorMessage> {
 public:
  using Message = std::shared_ptr<const proto::CoordinatorMessage>;

  Stream(RendezvousService* service, Coordinator::Session id) : session(id), service_(service) {
    StartRead(&incoming_);
  }

  // The next three methods require the service's lock.
  void Send(Message message) {
    if (ending_) return;
    outgoing_.push_back(std::move(message));
    if (outgoing_.size() == 1) StartWrite(outgoing_.front().get());
  }
  // Ends the stream with `status` once everything sent has gone out. The first call counts.
  void End(const absl::Status& status) {
    if (ending_) return;
    ending_ = true;
    status_ = ToGrpc(status);
    if (outgoing_.empty()) Finish(status_);
  }
  void Written(bool ok) {
    outgoing_.pop_front();
    if (!ok) outgoing_.clear();  // the peer is gone; the read side reports it
    if (!outgoing_.empty()) {
      StartWrite(outgoing_.front().get());
    } else if (ending_) {
      Finish(status_);
    }
  }

  void OnReadDone(bool ok) override {
    if (!ok) return service_->Lost(this);
    if (service_->Handle(this, incoming_)) StartRead(&incoming_);
  }
  void OnWriteDone(bool ok) override {
    absl::MutexLock lock(&service_->mutex_);
    Written(ok);
  }
  void OnDone() override { delete this; }

  const Coordinator::Session session;
  proto::Caller caller;  // of the first message

 private:
  RendezvousService* const service_;
  proto::NodeMessage incoming_;
  std::deque<Message> outgoing_;  // the first one is being written
  bool ending_ = false;
  grpc::Status status_;
};

RendezvousService::RendezvousService(Coordinator::Options options, Clock* clock, std::shared_ptr<KeyValueStore> store)
    : job_(options.job), clock_(clock), store_(std::move(store)), coordinator_(std::move(options)) {
  timer_ = std::thread([this] { RunTimer(); });
}

RendezvousService::~RendezvousService() {
  Stop();
  timer_.join();
}

void RendezvousService::Stop() {
  absl::MutexLock lock(&mutex_);
  if (stopping_) return;
  stopping_ = true;
  for (auto& [session, stream] : streams_) stream->End(absl::UnavailableError("the rendezvous is shutting down"));
  streams_.clear();
  store_->Close("the rendezvous is shutting down");
}

grpc::ServerBidiReactor<proto::NodeMessage, proto::CoordinatorMessage>* RendezvousService::Attend(
    grpc::CallbackServerContext*) {
  absl::MutexLock lock(&mutex_);
  auto* stream = new Stream(this, ++last_session_);
  if (stopping_) {
    stream->End(absl::UnavailableError("the rendezvous is shutting down"));
  } else {
    streams_.emplace(stream->session, stream);
  }
  return stream;
}

bool RendezvousService::Handle(Stream* stream, const proto::NodeMessage& message) {
  absl::MutexLock lock(&mutex_);
  NoticeStall();
  if (streams_.count(stream->session) > 0) Dispatch(stream, message);
  return streams_.count(stream->session) > 0;
}

void RendezvousService::Dispatch(Stream* stream, const proto::NodeMessage& message) {
  if (stream->caller.incarnation().empty()) {
    if (!message.has_join() && !message.has_reattach())
      return Reject(stream, absl::FailedPreconditionError("the first message of a node must be Join or Reattach"));
    if (message.caller().incarnation().empty())
      return Reject(stream, absl::InvalidArgumentError("incarnation is empty"));
    stream->caller = message.caller();
  }
  const proto::Caller& caller = message.caller();
  if (caller.incarnation() != stream->caller.incarnation() || caller.job() != stream->caller.job()) {
    return Reject(stream, absl::AbortedError("the message is from another job or incarnation than its stream"));
  }
  const absl::Time now = clock_->Now();
  switch (message.message_case()) {
    case proto::NodeMessage::kJoin:
      return Deliver(coordinator_.Join(stream->session, caller, message.join(), now));
    case proto::NodeMessage::kReattach: {
      const Coordinator::Outcome outcome = coordinator_.Reattach(stream->session, caller, message.reattach(), now);
      if (outcome.restore > 0) store_->Restore(outcome.restore, Memories(message.reattach()));
      return Deliver(outcome);
    }
    case proto::NodeMessage::kGenerationEnded:
      return Deliver(
          coordinator_.GenerationEnded(stream->session, caller.generation(), message.generation_ended().cause(), now));
    case proto::NodeMessage::kWorldTaken:
      return Deliver(coordinator_.WorldTaken(stream->session, caller.generation(), now));
    case proto::NodeMessage::kProbed:
      return Deliver(coordinator_.Probed(stream->session, message.probed(), now));
    case proto::NodeMessage::kReport:
      return coordinator_.Report(stream->session, message.report(), now);
    case proto::NodeMessage::kLeave:
      VLOG(1) << "rendezvous: a node leaves: " << message.leave().reason().substr(0, 200);
      streams_.erase(stream->session);
      stream->End(absl::OkStatus());
      return Deliver(coordinator_.Leave(stream->session, message.leave().done(), now));
    case proto::NodeMessage::MESSAGE_NOT_SET:
      return;
  }
}

grpc::ServerUnaryReactor* RendezvousService::Roster(grpc::CallbackServerContext* context,
                                                    const proto::RosterRequest* request, proto::RosterReply* reply) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  if (request->caller().job() != job_) {
    reactor->Finish(ToGrpc(absl::AbortedError(
        absl::StrCat("this rendezvous serves job \"", job_, "\", not \"", request->caller().job(), "\""))));
    return reactor;
  }
  {
    absl::MutexLock lock(&mutex_);
    if (request->look()) Deliver(coordinator_.Look(request->first_node_rank(), request->count(), clock_->Now()));
    *reply = coordinator_.Roster(request->first_node_rank(), request->count());
  }
  reactor->Finish(grpc::Status::OK);
  return reactor;
}

void RendezvousService::Reject(Stream* stream, const absl::Status& why) {
  stream->End(why);
  streams_.erase(stream->session);
  Deliver(coordinator_.Lost(stream->session, clock_->Now()));
}

void RendezvousService::Lost(Stream* stream) {
  absl::MutexLock lock(&mutex_);
  NoticeStall();
  stream->End(absl::OkStatus());
  if (streams_.erase(stream->session) > 0) Deliver(coordinator_.Lost(stream->session, clock_->Now()));
}

void RendezvousService::Deliver(const Coordinator::Outcome& outcome) {
  if (outcome.ended > 0) store_->End(outcome.ended, outcome.why_ended);
  if (outcome.begun > 0) {
    store_->Begin(outcome.begun, outcome.resumed);
    VLOG(1) << "rendezvous: generation " << outcome.begun << (outcome.resumed ? " goes on: " : " formed: ")
            << coordinator_.reason();
  }
  for (const Coordinator::Outgoing& out : outcome.messages) {
    const auto it = streams_.find(out.session);
    if (it == streams_.end()) continue;
    it->second->Send(out.message);
    if (!out.last) continue;
    it->second->End(ToStatus(out.message->refusal()));
    streams_.erase(it);
  }
  for (const Coordinator::Session session : outcome.replaced) {
    const auto it = streams_.find(session);
    if (it == streams_.end()) continue;
    it->second->End(absl::AbortedError("the same node joined again on another stream"));
    streams_.erase(it);
  }
  wake_changed_ = true;
}

// Detects that this process was stopped (SIGSTOP, a migrating or starved virtual machine): connections that broke
// meanwhile say nothing about their nodes. Called before a loss is believed or a message decides, since gRPC's threads
// may run before ours.
void RendezvousService::NoticeStall() {
  const absl::Time now = clock_->Now();
  if (now - pulse_ > kStall) {
    LOG(WARNING) << "rendezvous: this process did not run for " << absl::FormatDuration(now - pulse_);
    coordinator_.Stalled(now);
  }
  pulse_ = now;
}

void RendezvousService::RunTimer() {
  absl::MutexLock lock(&mutex_);
  pulse_ = clock_->Now();
  while (!stopping_) {
    wake_changed_ = false;
    NoticeStall();
    const absl::Time wake_at = coordinator_.wake_at();
    const absl::Duration wait = std::min(wake_at - clock_->Now(), kPulse);
    const auto changed = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return stopping_ || wake_changed_; };
    if (mutex_.AwaitWithTimeout(absl::Condition(&changed), wait)) continue;
    if (clock_->Now() >= wake_at) Deliver(coordinator_.Tick(clock_->Now()));
  }
}

}  // namespace composer
