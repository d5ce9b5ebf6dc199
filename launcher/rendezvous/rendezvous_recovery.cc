// How RendezvousLink finds the rendezvous again.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/log.h"
#include "launcher/rendezvous/rendezvous_link.h"
#include "rendezvous/liveness.h"
#include "rendezvous/transport/server_probe.h"

namespace composer {
namespace {

constexpr absl::Duration kReachLimit = absl::Milliseconds(600);
constexpr absl::Duration kSilentFor = absl::Seconds(1);  // then it is tried again
constexpr absl::Duration kServeInterval = absl::Seconds(2);

const char* Advice(const RendezvousPlaces& places) {
  if (!places.hosted || places.servers.size() > 1) return "";
  return "; with --rdzv-endpoint HOST,HOST,... the next one on the list would have taken over";
}

}  // namespace

void RendezvousLink::LoseServer() {
  absl::MutexLock lock(&mutex_);
  if (ending_ || lost_) return;
  lost_ = true;
  away_since_ = Now();
  LOG(WARNING) << "the rendezvous is away; the workers continue without it";
}

SuccessionView RendezvousLink::Look() {
  SuccessionView view{.self = handlers_.on_serve ? places_.self : -1,
                      .hosted = places_.hosted,
                      .grace = places_.grace,
                      .blip = places_.blip};
  for (size_t i = 0; i < places_.servers.size(); ++i) {
    ServerState state = ProbeServer(places_.servers[i], kReachLimit);
    const absl::Time now = Now();
    if (state == ServerState::kServing && now < shunned_until_[i]) state = ServerState::kBackoff;
    if (state == ServerState::kServing && now < silent_until_[i]) state = ServerState::kUnresponsive;
    view.servers.push_back(state);
  }
  proto::Liveness host;
  {
    absl::MutexLock lock(&mutex_);
    host = host_;
  }
  const bool is_silent = view.servers[server_] == ServerState::kSilent;
  if (is_silent && SeesLife(host, Prober::kLimit)) view.lives = server_;
  absl::MutexLock lock(&mutex_);
  view.away_since = away_since_;
  view.broken_since = std::min(broken_since_, done_since_);
  return view;
}

bool RendezvousLink::Recover() {
  do {
    const SuccessionView view = Look();
    const SuccessionDecision decision = DecideSuccession(view, places_.servers, Now());
    switch (decision.kind) {
      case SuccessionDecision::Kind::kAttach:
        if (AttachTo(decision.server)) return true;
        silent_until_[decision.server] = Now() + kSilentFor;
        continue;
      case SuccessionDecision::Kind::kServe:
        if (Now() < serve_again_) break;
        serve_again_ = Now() + kServeInterval;
        LOG(WARNING) << "serving the rendezvous: " << decision.reason;
        {
          absl::MutexLock lock(&mutex_);
          serves_ = true;
        }
        handlers_.on_serve();
        break;
      case SuccessionDecision::Kind::kGiveUp:
        handlers_.on_world(absl::UnavailableError(absl::StrCat(decision.reason, Advice(places_))));
        return false;
      case SuccessionDecision::Kind::kWait:
        break;
    }
  } while (SleepUnlessEnding(timeouts_.look));
  return false;
}

bool RendezvousLink::AttachTo(int server) {
  const proto::MembershipRecord record = client()->record();
  if (absl::Status status = Connect(places_.servers[server], record, timeouts_.answer); !status.ok()) {
    LOG(INFO) << status.message();
    return false;
  }
  if (!TellWhatWeKnow(*client())) return false;
  absl::MutexLock lock(&mutex_);
  if (std::exchange(server_, server) != server) host_.Clear();  // it described another host
  lost_ = false;
  LOG(WARNING) << "the rendezvous is back at " << places_.servers[server] << " after "
               << absl::FormatDuration(absl::Trunc(Now() - away_since_, absl::Milliseconds(1)));
  return true;
}

// Reports what this node knows to a rendezvous that is back. A node whose workers have ended reports only why; then it
// joins.
bool RendezvousLink::TellWhatWeKnow(RendezvousClient& client) {
  std::optional<proto::FailureCause> untold;
  bool running = false;
  {
    absl::MutexLock lock(&mutex_);
    running = broken_since_ == absl::InfiniteFuture();
    untold = untold_;
  }
  if (!running && !untold.has_value()) return true;
  const proto::MembershipRecord record = client.record();
  const absl::Status told = client.Reattach(upstream_->Memories(record.generation()), timeouts_.answer);
  if (told.ok() && untold.has_value()) {
    absl::MutexLock lock(&mutex_);
    untold_.reset();
    return client.ReportGenerationEnded(*untold).ok();
  }
  if (absl::IsAborted(told) && running) {
    proto::GenerationOver over;
    over.set_generation(record.generation());
    over.mutable_cause()->set_node_id("rendezvous");
    over.mutable_cause()->set_rank(-1);
    over.mutable_cause()->set_message(std::string(told.message()));
    handlers_.on_generation_over(over);
  }
  if (!told.ok()) LOG(INFO) << told.message();
  return told.ok() || absl::IsAborted(told);
}

}  // namespace composer
