// SPDX-License-Identifier: Apache-2.0
#include "launcher/rendezvous/rendezvous_link.h"

#include <grpcpp/client_context.h>
#include <poll.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "proto/rendezvous.grpc.pb.h"
#include "rendezvous/transport/grpc_settings.h"

namespace composer {
namespace {

constexpr absl::Duration kShunFor = absl::Seconds(15);  // a server without quorum
// For a refusal that may pass: longer than a dead node stays unnoticed.
constexpr absl::Duration kPassingLimit = absl::Seconds(6);
constexpr absl::Duration kRefreshRecord = absl::Minutes(1);  // far below kMemoryLasts (node_memory.h)
constexpr absl::Duration kOthersInterval = absl::Milliseconds(20);
constexpr absl::Duration kAtOnce = absl::Seconds(1);  // an attempt to join that ends this soon
constexpr absl::Duration kFirstJoinPause = absl::Milliseconds(50);
constexpr absl::Duration kLastJoinPause = absl::Seconds(10);

}  // namespace

absl::Time RendezvousLink::Now() { return RealClock::Get().Now(); }

RendezvousLink::RendezvousLink(RendezvousClient::Options options, Handlers handlers, const Limits& limits,
                               RendezvousPlaces places)
    : options_(std::move(options)),
      handlers_(std::move(handlers)),
      limits_(limits),
      timeouts_(TimeoutsOf(options_.max_nodes)),
      places_([&] {
        if (places.servers.empty()) places.servers = {options_.address};
        return std::move(places);
      }()),
      silent_until_(places_.servers.size(), absl::InfinitePast()),
      shunned_until_(places_.servers.size(), absl::InfinitePast()),
      prober_([this](const proto::Probed& probed) {
        if (const auto client = this->client(); client != nullptr) client->Answer(probed);
      }) {}

absl::StatusOr<std::unique_ptr<RendezvousLink>> RendezvousLink::Start(RendezvousClient::Options options,
                                                                      Handlers handlers, const Limits& limits,
                                                                      RendezvousPlaces places) {
  std::unique_ptr<RendezvousLink> link(
      new RendezvousLink(std::move(options), std::move(handlers), limits, std::move(places)));
  RETURN_IF_ERROR(link->Connect(link->options_.address, link->options_.record, limits.first_connect));
  link->thread_ = std::thread([self = link.get()] { self->Run(); });
  return link;
}

RendezvousLink::~RendezvousLink() {
  {
    absl::MutexLock lock(&mutex_);
    ending_ = true;
  }
  if (thread_.joinable()) thread_.join();
  std::shared_ptr<RendezvousClient> client;
  {
    absl::MutexLock lock(&mutex_);
    client.swap(client_);
  }
  client.reset();  // its handlers use the members that are destroyed next
}

absl::Status RendezvousLink::Connect(const std::string& address, const proto::MembershipRecord& record,
                                     absl::Duration timeout) {
  RendezvousClient::Options options = options_;
  options.address = address;
  options.record = record;
  options.connect_timeout = timeout;
  {
    absl::MutexLock lock(&mutex_);
    options.node.set_serves(options.node.serves() || serves_);
  }
  ASSIGN_OR_RETURN(std::shared_ptr<RendezvousClient> client, RendezvousClient::Connect(std::move(options)));
  client->OnGenerationOver([this](const proto::GenerationOver& over) {
    if (over.cause().node_id().empty()) return LoseServer();
    {
      absl::MutexLock lock(&mutex_);
      broken_since_ = std::min(broken_since_, Now());
    }
    handlers_.on_generation_over(over);
  });
  client->OnProbe([this](const proto::Probe& probe) { prober_.Ask(probe); });
  if (handlers_.on_resize) client->OnResize(handlers_.on_resize);
  if (handlers_.on_look) client->OnLook(handlers_.on_look);
  if (handlers_.on_spare) client->OnSpare(handlers_.on_spare);
  if (upstream_ == nullptr) {
    upstream_ = std::make_shared<KeyValueUpstream>(options_.incarnation, client->channel());
  } else {
    upstream_->SetChannel(client->channel());
  }
  {
    absl::MutexLock lock(&mutex_);
    client_.swap(client);
  }
  return absl::OkStatus();  // the old client ends without the lock, because its handler may wait for it
}

std::shared_ptr<RendezvousClient> RendezvousLink::client() {
  absl::MutexLock lock(&mutex_);
  return client_;
}

void RendezvousLink::Join(const proto::RestartTally& tally, bool checkpointed) {
  absl::MutexLock lock(&mutex_);
  tally_ = tally;
  checkpointed_ = checkpointed;
  join_wanted_ = true;
  broken_since_ = std::min(broken_since_, Now());
}

void RendezvousLink::ReportEnded(const proto::FailureCause& cause) {
  {
    absl::MutexLock lock(&mutex_);
    broken_since_ = std::min(broken_since_, Now());
  }
  const absl::Status status = client()->ReportGenerationEnded(cause);
  if (status.ok()) return;
  LOG(INFO) << "the rendezvous hears of the failure when it is back: " << status.message();
  absl::MutexLock lock(&mutex_);
  if (!untold_.has_value()) untold_ = cause;
}

void RendezvousLink::Report(const proto::NodeReport& report) { client()->Report(report); }

absl::StatusOr<proto::RosterReply> RendezvousLink::Roster(int first_node_rank, int count, bool look,
                                                          absl::Duration timeout) {
  grpc::ClientContext context;
  context.set_deadline(DeadlineAfter(timeout));
  proto::RosterRequest request;
  request.mutable_caller()->set_job(options_.job);
  request.set_first_node_rank(first_node_rank);
  request.set_count(count);
  request.set_look(look);
  proto::RosterReply reply;
  const grpc::Status status = proto::Rendezvous::NewStub(client()->channel())->Roster(&context, request, &reply);
  if (!status.ok()) return FromGrpc(status);
  return reply;
}

void RendezvousLink::WorkersEnded() {
  absl::MutexLock lock(&mutex_);
  done_since_ = Now();
}

void RendezvousLink::Leave(absl::string_view reason, bool done) {
  {
    absl::MutexLock lock(&mutex_);
    ending_ = true;
  }
  client()->Leave(reason, done);
}

void RendezvousLink::AwaitOthers(absl::Duration limit, int stop_signals) {
  const absl::Time until = Now() + limit;
  pollfd stop = {stop_signals, POLLIN, 0};
  while (Now() < until) {
    const auto roster = Roster(0, 0, false, absl::Seconds(1));
    if (!roster.ok() || roster->in_world() == 0) return;  // an error means that the rendezvous is gone
    if (poll(&stop, 1, static_cast<int>(absl::ToInt64Milliseconds(kOthersInterval))) > 0) return;
  }
}

bool RendezvousLink::serves() {
  absl::MutexLock lock(&mutex_);
  return serves_;
}

void RendezvousLink::Run() {
  while (true) {
    bool lost = false;
    {
      absl::MutexLock lock(&mutex_);
      const auto due = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return join_wanted_ || lost_ || ending_; };
      while (!mutex_.AwaitWithTimeout(absl::Condition(&due), kRefreshRecord)) RefreshRecord();
      if (ending_) return;
      lost = lost_;
    }
    if (!lost) {
      JoinOnce();
    } else if (!Recover()) {
      return;
    }
  }
}

void RendezvousLink::RefreshRecord() {
  const bool runs = broken_since_ == absl::InfiniteFuture() && client_->record().generation() > 0;
  if (options_.remember && runs) options_.remember(client_->record());
}

void RendezvousLink::JoinOnce() {
  proto::RestartTally tally;
  bool checkpointed = false;
  {
    absl::MutexLock lock(&mutex_);
    tally = tally_;
    checkpointed = checkpointed_;
  }
  const absl::Time asked = Now();
  absl::StatusOr<proto::World> world = client()->Join(limits_.join, tally, checkpointed);
  const absl::Time now = Now();
  const bool sent_away = absl::IsFailedPrecondition(world.status());
  if (!sent_away) refused_since_ = absl::InfiniteFuture();
  if (sent_away) {
    refused_since_ = std::min(refused_since_, asked);  // it has waited there in vain since then
    if (places_.servers.size() > 1) shunned_until_[server_] = now + kShunFor;
    if (places_.servers.size() == 1 && now - refused_since_ >= kPassingLimit)
      world = absl::InvalidArgumentError(world.status().message());
    if (places_.servers.size() > 1 && now - refused_since_ >= places_.grace)
      return handlers_.on_world(
          absl::UnavailableError(absl::StrCat("sent away by the rendezvous: ", world.status().message())));
  }
  const bool final = world.ok() || absl::IsInvalidArgument(world.status()) ||
                     absl::IsDeadlineExceeded(world.status()) || absl::IsAlreadyExists(world.status());
  if (!final) {
    const bool at_once = now - asked < kAtOnce;
    join_pause_ = at_once ? std::clamp(2 * join_pause_, kFirstJoinPause, kLastJoinPause) : absl::ZeroDuration();
    SleepUnlessEnding(sent_away ? 2 * timeouts_.look : join_pause_);
    return LoseServer();
  }
  join_pause_ = absl::ZeroDuration();
  {
    absl::MutexLock lock(&mutex_);
    join_wanted_ = false;
    untold_.reset();
    if (world.ok()) broken_since_ = done_since_ = absl::InfiniteFuture();
    if (world.ok()) host_ = world->host();
  }
  handlers_.on_world(std::move(world));
}

bool RendezvousLink::SleepUnlessEnding(absl::Duration duration) {
  absl::MutexLock lock(&mutex_);
  return !mutex_.AwaitWithTimeout(absl::Condition(&ending_), duration);
}

}  // namespace composer
