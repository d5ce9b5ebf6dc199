// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/failover/succession.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "rendezvous/failover/quorum.h"

namespace composer {
namespace {

using SuccessionKind = SuccessionDecision::Kind;

const char* Describe(ServerState reach) {
  switch (reach) {
    case ServerState::kServing:
    case ServerState::kUnresponsive:
      return "accepts connections, but does not answer";
    case ServerState::kRefused:
      return "refuses connections: its host is up, the rendezvous is not";
    case ServerState::kSilent:
      return "does not answer: its host is lost or cut off";
    case ServerState::kBackoff:
      return "has too few of the job's nodes";
  }
  return "";
}

std::string Seconds(absl::Duration duration) {
  return absl::FormatDuration(absl::Trunc(duration, absl::Milliseconds(100)));
}

SuccessionDecision GiveUp(const SuccessionView& view, const std::vector<std::string>& names, absl::Time now) {
  std::string reason = absl::StrCat("the rendezvous was lost ", Seconds(now - view.away_since), " ago:");
  for (size_t i = 0; i < view.servers.size(); ++i)
    absl::StrAppend(&reason, i > 0 ? ";" : "", " ", names[i], " ", Describe(view.servers[i]));
  return {SuccessionKind::kGiveUp, -1, std::move(reason)};
}

// Returns whether this node is cut off from a server that the others may well reach.
bool IsCutOff(const SuccessionView& view, absl::Time now) {
  return view.lives >= 0 && view.lives < static_cast<int>(view.servers.size()) &&
         view.servers[view.lives] == ServerState::kSilent && now < view.away_since + view.blip;
}

// Returns when a lone server is given up.
absl::Time Patience(const SuccessionView& view) {
  const absl::Time end_of_grace = view.away_since + view.grace;
  if (!view.hosted) return end_of_grace;
  if (view.servers[0] == ServerState::kSilent) return std::min(view.away_since + kSilentHost, end_of_grace);
  if (view.servers[0] == ServerState::kUnresponsive) return std::min(view.away_since + kLostHost, end_of_grace);
  if (view.broken_since == absl::InfiniteFuture()) return end_of_grace;
  return std::min(std::max(view.away_since, view.broken_since) + kLostHost, end_of_grace);
}

}  // namespace

SuccessionDecision DecideSuccession(const SuccessionView& view, const std::vector<std::string>& names, absl::Time now) {
  const bool is_cut_off = IsCutOff(view, now) && now < view.away_since + view.grace;
  const SuccessionDecision wait = {
      SuccessionKind::kWait, -1,
      is_cut_off ? absl::StrCat("the launcher on the host of ", names[view.lives], " lives") : ""};
  if (is_cut_off && view.broken_since == absl::InfiniteFuture()) return wait;
  for (size_t i = 0; i < view.servers.size(); ++i) {
    if (view.servers[i] == ServerState::kServing)
      return {SuccessionKind::kAttach, static_cast<int>(i), absl::StrCat(names[i], " serves")};
  }
  for (size_t i = 0; i < view.servers.size(); ++i) {
    if (view.servers[i] == ServerState::kBackoff)
      return {SuccessionKind::kAttach, static_cast<int>(i), absl::StrCat(names[i], " is the only one that serves")};
  }
  const int count = static_cast<int>(view.servers.size());
  if (is_cut_off) return wait;
  if (count == 1) {
    const absl::Time patience = view.served ? Patience(view) : view.away_since + view.grace;
    if (now >= patience) return GiveUp(view, names, now);
    return {SuccessionKind::kWait, -1, absl::StrCat(names[0], " ", Describe(view.servers[0]))};
  }
  const auto turn = [&](int i) { return view.away_since + i * kTakeover; };
  if (view.self >= 0 && now >= turn(view.self)) {
    return {SuccessionKind::kServe, view.self,
            view.self == 0 ? absl::StrCat(names[0], " is the first of the list")
                           : absl::StrCat(names[view.self], " takes over: ", names[view.self - 1], " ",
                                          Describe(view.servers[view.self - 1]))};
  }
  if (now >= turn(count) + view.grace) return GiveUp(view, names, now);
  const int due = static_cast<int>(std::clamp<int64_t>((now - view.away_since) / kTakeover, 0, count - 1));
  return {SuccessionKind::kWait, -1, absl::StrCat(names[due], " is to serve next")};
}

absl::Duration QuorumWaitOf(int server, int num_servers) {
  return kQuorumWait * std::max(1, num_servers - std::max(0, server));
}

}  // namespace composer
