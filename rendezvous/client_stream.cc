// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/client_stream.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "rendezvous/transport/grpc_settings.h"
#include "rendezvous/worlds/failure_cause.h"

namespace composer {

RendezvousClient::Stream::Stream(Options options, const std::shared_ptr<grpc::Channel>& channel)
    : options_(std::move(options)), stub_(proto::Rendezvous::NewStub(channel)), record_(options_.record) {
  stub_->async()->Attend(&context_, this);
  AddHold();  // writes are started outside of reactions
  StartRead(&incoming_);
  StartCall();
}

RendezvousClient::Stream::~Stream() {
  absl::MutexLock lock(&mutex_);
  armed_ = false;
  taken_ = 0;
  context_.TryCancel();
  ReleaseHold();
  mutex_.Await(absl::Condition(&done_));
}

absl::StatusOr<proto::World> RendezvousClient::Stream::Join(absl::Duration timeout, const proto::RestartTally& tally,
                                                            bool checkpointed) {
  const absl::Time deadline = absl::Now() + timeout;
  absl::MutexLock lock(&mutex_);
  const auto changed = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) {
    return world_.has_value() || over_.has_value() || !joining_;
  };
  while (!world_.has_value()) {
    if (over_.has_value()) return *over_;
    if (!joining_) SendJoin(tally, checkpointed);
    if (!mutex_.AwaitWithDeadline(absl::Condition(&changed), deadline)) {
      return absl::DeadlineExceededError(absl::StrCat("rendezvous at ", options_.address, ": no world within ",
                                                      absl::FormatDuration(timeout),
                                                      ": too few nodes have joined, or they have not all come back"));
    }
  }
  armed_ = true;
  proto::World world = *std::exchange(world_, std::nullopt);
  taken_ = world.generation();
  return world;
}

absl::Status RendezvousClient::Stream::Reattach(std::vector<proto::KeyMemory> keys, absl::Duration timeout) {
  absl::MutexLock lock(&mutex_);
  if (over_.has_value()) return *over_;
  proto::NodeMessage message;
  proto::Reattach& reattach = *message.mutable_reattach();
  *reattach.mutable_node() = options_.node;
  *reattach.mutable_record() = record_;
  reattach.mutable_keys()->Assign(std::make_move_iterator(keys.begin()), std::make_move_iterator(keys.end()));
  reattaching_ = true;
  Send(std::move(message));
  const auto answered = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return !reattaching_ || over_.has_value(); };
  if (!mutex_.AwaitWithTimeout(absl::Condition(&answered), timeout)) {
    return absl::DeadlineExceededError(
        absl::StrCat("rendezvous at ", options_.address, ": no answer within ", absl::FormatDuration(timeout)));
  }
  if (reattaching_) return *over_;
  return reattach_answer_;
}

proto::MembershipRecord RendezvousClient::Stream::record() const {
  absl::MutexLock lock(&mutex_);
  return record_;
}

void RendezvousClient::Stream::SetHandler(Handler handler) {
  absl::MutexLock lock(&mutex_);
  handler_ = std::move(handler);
}

void RendezvousClient::Stream::SetResizeHandler(std::function<void(const proto::Resize&)> handler) {
  absl::MutexLock lock(&mutex_);
  resize_handler_ = std::move(handler);
}

void RendezvousClient::Stream::SetLookHandler(std::function<void()> handler) {
  absl::MutexLock lock(&mutex_);
  look_handler_ = std::move(handler);
}

void RendezvousClient::Stream::SetSpareHandler(std::function<void(const proto::Spare&)> handler) {
  absl::MutexLock lock(&mutex_);
  spare_handler_ = std::move(handler);
}

void RendezvousClient::Stream::SetProbeHandler(std::function<void(const proto::Probe&)> handler) {
  absl::MutexLock lock(&mutex_);
  probe_handler_ = std::move(handler);
}

void RendezvousClient::Stream::Answer(const proto::Probed& probed) {
  absl::MutexLock lock(&mutex_);
  if (over_.has_value()) return;
  proto::NodeMessage message;
  *message.mutable_probed() = probed;
  Send(std::move(message));
}

void RendezvousClient::Stream::Report(const proto::NodeReport& report) {
  absl::MutexLock lock(&mutex_);
  if (over_.has_value()) return;
  proto::NodeMessage message;
  *message.mutable_report() = report;
  Send(std::move(message));
}

absl::Status RendezvousClient::Stream::ReportGenerationEnded(const proto::FailureCause& cause) {
  absl::MutexLock lock(&mutex_);
  if (over_.has_value()) return *over_;
  proto::NodeMessage message;
  proto::FailureCause& sent = *message.mutable_generation_ended()->mutable_cause();
  sent = cause;
  if (sent.node_id().empty()) sent.set_node_id(options_.node.node_id());
  if (sent.unix_micros() == 0) sent.set_unix_micros(absl::ToUnixMicros(options_.clock->Now()));
  TidyCause(sent);
  Send(std::move(message));
  return absl::OkStatus();
}

void RendezvousClient::Stream::Leave(absl::string_view reason, bool done) {
  absl::MutexLock lock(&mutex_);
  if (over_.has_value()) return;
  proto::NodeMessage message;
  message.mutable_leave()->set_reason(std::string(reason));
  message.mutable_leave()->set_done(done);
  armed_ = false;
  taken_ = 0;
  Send(std::move(message));
  const auto ended = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return over_.has_value(); };
  mutex_.AwaitWithTimeout(absl::Condition(&ended), absl::Seconds(1));
}

void RendezvousClient::Stream::OnReadDone(bool ok) {
  if (!ok) {
    absl::MutexLock lock(&mutex_);
    reads_over_ = true;
    return ReleaseHold();  // OnDone follows, with the status
  }
  if (incoming_.has_world()) TakeWorld();
  if (incoming_.has_generation_over()) TakeGenerationOver(incoming_.generation_over());
  if (incoming_.has_resize()) TakeResize(incoming_.resize());
  if (incoming_.has_spare()) TakeSpare(incoming_.spare());
  if (incoming_.has_look()) TakeLook();
  if (incoming_.has_probe()) TakeProbe(incoming_.probe());
  if (incoming_.has_reattached()) AnswerReattach(absl::OkStatus());
  if (incoming_.has_confirmed()) TakeConfirmed(incoming_.confirmed());
  StartRead(&incoming_);
}

void RendezvousClient::Stream::OnWriteDone(bool ok) {
  absl::MutexLock lock(&mutex_);
  outgoing_.pop_front();
  if (ok && !outgoing_.empty() && !reads_over_) StartWrite(&outgoing_.front());
}

void RendezvousClient::Stream::OnDone(const grpc::Status& status) {
  Handler handler;
  proto::GenerationOver lost;
  {
    absl::MutexLock lock(&mutex_);
    over_ = Explain(status);
    if (armed_ && !joining_) handler = handler_;  // a pending Join returns over_ itself
    lost.set_generation(record_.generation());
    lost.mutable_cause()->set_rank(-1);
    lost.mutable_cause()->set_message(std::string(over_->message()));
    lost.mutable_cause()->set_unix_micros(absl::ToUnixMicros(options_.clock->Now()));
  }
  if (handler) handler(lost);
  absl::MutexLock lock(&mutex_);
  done_ = true;  // must be the last access: the destructor may proceed now
}

void RendezvousClient::Stream::SendJoin(const proto::RestartTally& tally, bool checkpointed) {
  proto::NodeMessage message;
  *message.mutable_join()->mutable_node() = options_.node;
  if (options_.free_port) message.mutable_join()->mutable_node()->set_free_port(options_.free_port());
  *message.mutable_join()->mutable_last() = record_;
  *message.mutable_join()->mutable_tally() = tally;
  message.mutable_join()->set_checkpointed(checkpointed);
  Send(std::move(message));
  joining_ = true;
  armed_ = false;
}

void RendezvousClient::Stream::Send(proto::NodeMessage message) {
  if (reads_over_) return;
  message.mutable_caller()->set_job(options_.job);
  message.mutable_caller()->set_generation(record_.generation());
  message.mutable_caller()->set_incarnation(options_.incarnation);
  outgoing_.push_back(std::move(message));
  if (outgoing_.size() == 1) StartWrite(&outgoing_.front());
}

void RendezvousClient::Stream::Remember() const {
  if (options_.remember) options_.remember(record_);
}

void RendezvousClient::Stream::TakeWorld() {
  absl::MutexLock lock(&mutex_);
  world_ = std::move(*incoming_.mutable_world());
  joining_ = false;
  record_.set_generation(world_->generation());
  record_.set_world(world_->id());
  record_.set_nodes(world_->nodes());
  record_.set_node_rank(world_->node_rank());
  *record_.mutable_before() = world_->before();
  Remember();
  if (!world_->confirm()) return;
  proto::NodeMessage message;
  message.mutable_world_taken();
  Send(std::move(message));
}

void RendezvousClient::Stream::TakeConfirmed(const proto::Confirmed& confirmed) {
  absl::MutexLock lock(&mutex_);
  if (confirmed.generation() != record_.generation()) return;
  record_.clear_before();
  Remember();
}

void RendezvousClient::Stream::TakeResize(const proto::Resize& resize) {
  std::function<void(const proto::Resize&)> handler;
  {
    absl::MutexLock lock(&mutex_);
    if (armed_ && resize.generation() == record_.generation()) handler = resize_handler_;
  }
  if (handler) handler(resize);
}

void RendezvousClient::Stream::TakeSpare(const proto::Spare& spare) {
  std::function<void(const proto::Spare&)> handler;
  {
    absl::MutexLock lock(&mutex_);
    if (spare.newest().generation() > record_.generation()) {
      record_ = spare.newest();
      Remember();
    }
    handler = spare_handler_;
  }
  if (handler) handler(spare);
}

void RendezvousClient::Stream::TakeLook() {
  std::function<void()> handler;
  {
    absl::MutexLock lock(&mutex_);
    handler = look_handler_;
  }
  if (handler) handler();
}

void RendezvousClient::Stream::TakeProbe(const proto::Probe& probe) {
  std::function<void(const proto::Probe&)> handler;
  {
    absl::MutexLock lock(&mutex_);
    handler = probe_handler_;
  }
  if (handler) handler(probe);
}

void RendezvousClient::Stream::AnswerReattach(absl::Status answer) {
  absl::MutexLock lock(&mutex_);
  if (!std::exchange(reattaching_, false)) return;
  armed_ = answer.ok();  // a GenerationOver may follow at once
  if (answer.ok()) taken_ = record_.generation();
  reattach_answer_ = std::move(answer);
}

void RendezvousClient::Stream::TakeGenerationOver(const proto::GenerationOver& over) {
  Handler handler;
  {
    absl::MutexLock lock(&mutex_);
    if (world_.has_value() && world_->generation() == over.generation()) {
      world_.reset();  // the world ended before Join picked it up: Join asks for the next one
      if (!over.cause().has_verdict()) return;
      handler = handler_;  // the verdict may be that there is no next one
    } else if (over.generation() == record_.generation() && std::exchange(reattaching_, false)) {
      reattach_answer_ = absl::AbortedError(over.cause().message());
      return;
    } else if (over.generation() == record_.generation() && over.generation() == taken_) {
      handler = handler_;
    }
    armed_ = false;
  }
  if (handler) handler(over);
}

absl::Status RendezvousClient::Stream::Explain(const grpc::Status& status) const {
  if (status.ok())
    return absl::UnavailableError(absl::StrCat("rendezvous at ", options_.address, ": the stream is closed"));
  return Annotate(FromGrpc(status), absl::StrCat("rendezvous at ", options_.address));
}

void RendezvousClient::Stream::ReleaseHold() {
  if (std::exchange(held_, false)) RemoveHold();
}

}  // namespace composer
