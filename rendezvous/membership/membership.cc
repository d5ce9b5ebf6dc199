// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/membership/membership.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace composer {
namespace {

using MembershipKind = MembershipDecision::Kind;

std::string Nodes(int count) { return absl::StrCat(count, count == 1 ? " node" : " nodes"); }

MembershipDecision Nothing(std::string reason) { return {MembershipKind::kNothing, {}, std::move(reason)}; }

// Returns `kind` from `at` on, and until then a wait with its own reason.
MembershipDecision At(absl::Time at, absl::Time now, MembershipKind kind, std::string then, std::string meanwhile) {
  if (now >= at) return {kind, {}, std::move(then)};
  return {MembershipKind::kWait, at, std::move(meanwhile)};
}

MembershipDecision DecideGrowth(const MemberRoster& roster, const MembershipPolicy& policy, absl::Time now) {
  const std::string running = absl::StrCat("generation ", roster.last_generation, " is running");
  if (roster.waiting == 0) return Nothing(running);
  if (roster.done) return Nothing(absl::StrCat(running, ", and is about to be done"));
  if (roster.members >= policy.max_nodes) return Nothing(absl::StrCat(running, ", ", Nodes(roster.waiting), " spare"));
  if (policy.grow == GrowPolicy::kNever) {
    return Nothing(absl::StrCat(running, ", ", Nodes(roster.waiting), " wait for its end (grow is never)"));
  }
  return At(roster.last_waiting + kGrowSettle, now, MembershipKind::kResize,
            absl::StrCat("the world grows from ", roster.members, " to ",
                         std::min(policy.max_nodes, roster.members + roster.waiting), " of at most ",
                         Nodes(policy.max_nodes)),
            absl::StrCat(running, ", ", Nodes(roster.waiting), " will be added"));
}

// Counts the connected nodes: those that still end their workers will join.
bool HasQuorum(const MemberRoster& roster, const MembershipPolicy& policy) {
  if (!policy.quorum) return true;
  if (roster.last_generation == 0) return IsMajority(roster.waiting, policy.max_nodes, policy.holds_tie);
  return IsMajority(roster.present, roster.members, roster.first_present) &&
         std::all_of(roster.before.begin(), roster.before.end(), Agrees);
}

// Counts only nodes that will be in the world, so that a connection that is dead without our knowledge does not count.
MembershipDecision Form(const MemberRoster& roster, const MembershipPolicy& policy, std::string reason) {
  if (policy.quorum && roster.last_generation > 0 &&
      !IsMajority(roster.present_waiting, roster.members, roster.first_waiting)) {
    return Nothing(absl::StrCat(roster.present_waiting, " of the ", Nodes(roster.members), " of generation ",
                                roster.last_generation, " have ended their workers, more than half are needed"));
  }
  return {MembershipKind::kForm, {}, std::move(reason)};
}

MembershipDecision FormAt(absl::Time at, absl::Time now, const MemberRoster& roster, const MembershipPolicy& policy,
                          std::string then, std::string meanwhile) {
  if (now >= at) return Form(roster, policy, std::move(then));
  return {MembershipKind::kWait, at, std::move(meanwhile)};
}

MembershipDecision DecideRunning(const MemberRoster& roster, const MembershipPolicy& policy, absl::Time now) {
  if (roster.expected > 0) {
    return At(roster.expected_until, now, MembershipKind::kEnd,
              absl::StrCat(roster.expected, " of the ", Nodes(roster.members), " of generation ",
                           roster.last_generation, " did not come back to the rendezvous in time"),
              absl::StrCat("generation ", roster.last_generation, " is running, ", roster.expected, " of its ",
                           Nodes(roster.members), " not back at the rendezvous yet"));
  }
  if (roster.resizing) {
    return Nothing(absl::StrCat("generation ", roster.last_generation, " is ending, so that the world can grow"));
  }
  return DecideGrowth(roster, policy, now);
}

MembershipDecision DecideWithoutQuorum(const MemberRoster& roster, const MembershipPolicy& policy, absl::Time now) {
  if (roster.all_here)
    return {MembershipKind::kForm, {}, absl::StrCat("all ", Nodes(policy.max_nodes), " are here"), /*anew=*/true};
  const bool first = roster.last_generation == 0;
  const std::string who = first ? absl::StrCat(roster.waiting, " of at most ", Nodes(policy.max_nodes))
                                : absl::StrCat(roster.present, " of the ", Nodes(roster.members), " of generation ",
                                               roster.last_generation);
  const std::string why = absl::StrCat(who, " are here, more than half are needed",
                                       roster.before.empty() ? "" : ", also of the worlds before it");
  if (roster.waiting == 0) return Nothing(why);
  return At((first ? roster.last_waiting : roster.ended) + policy.quorum_wait, now, MembershipKind::kDissolve, why,
            why);
}

}  // namespace

MembershipDecision DecideMembership(const MemberRoster& roster, const MembershipPolicy& policy, absl::Time now) {
  if (roster.running) return DecideRunning(roster, policy, now);
  if (now < roster.settled) {  // even when the newest known world is over: a newer one may be running
    return {MembershipKind::kWait, roster.settled,
            "the rendezvous was just started: nodes of a running world may come back"};
  }
  // Without a list it is time alone that keeps two worlds apart: the launchers over there counted their grace from when
  // they noticed, which may be later than when we did, and end their workers then. With a list the quorum does.
  const absl::Time unseen_until = roster.ended + policy.grace + (policy.quorum ? absl::ZeroDuration() : kSurvivorWait);
  if (roster.last_generation > 0 && !roster.broken && roster.waiting > 0 && now < unseen_until) {
    return {MembershipKind::kWait, unseen_until,
            absl::StrCat("the nodes of generation ", roster.last_generation,
                         " were lost together: cut off from here, they may go on for a while")};
  }
  const int ending = roster.present - roster.present_waiting;
  // Nodes that come later have missed their time.
  const int expected = now < roster.expected_until ? roster.expected : 0;
  const int missing = ending + expected;  // survivors that may still come
  if (!HasQuorum(roster, policy)) return DecideWithoutQuorum(roster, policy, now);
  if (roster.waiting < policy.min_nodes) {
    const std::string why = absl::StrCat(Nodes(roster.waiting), " here, at least ", policy.min_nodes, " needed");
    const bool others_may_serve = policy.quorum && (roster.last_generation == 0 || !policy.holds_tie);
    if (!others_may_serve || roster.waiting == 0) return Nothing(why);
    return At(roster.last_waiting + policy.quorum_wait, now, MembershipKind::kDissolve, why, why);
  }
  if (roster.waiting >= policy.max_nodes) {
    const std::string all = absl::StrCat("all ", Nodes(policy.max_nodes), " are here");
    if (missing == 0) return Form(roster, policy, all);
    return FormAt(
        roster.ended + kSurvivorPreference, now, roster, policy, all,
        absl::StrCat(Nodes(missing), " left of generation ", roster.last_generation, " may be back in a moment"));
  }
  if (roster.present > 0 && missing == 0) {
    return Form(
        roster, policy,
        absl::StrCat("the ", Nodes(roster.present), " left of generation ", roster.last_generation, " are back"));
  }
  absl::Time deadline = roster.min_reached + policy.last_call;
  const absl::Time survivors_until = roster.ended + kSurvivorWait;
  if (ending > 0) deadline = std::max(deadline, survivors_until);
  if (expected > 0) {
    deadline = std::max(deadline, std::min(roster.expected_until, survivors_until));
    if (ending == 0 && roster.present > 0)
      deadline = std::min(deadline, roster.expected_until);  // the rest will be back by then
  }
  return FormAt(
      deadline, now, roster, policy,
      absl::StrCat(Nodes(roster.waiting), " of at most ", policy.max_nodes, " are here and the last call is over"),
      missing > 0 ? absl::StrCat(missing, " of the ", Nodes(roster.present + expected), " left of generation ",
                                 roster.last_generation, " not back yet")
                  : absl::StrCat("last call: ", Nodes(roster.waiting), " of at most ", policy.max_nodes, " are here"));
}

bool ParseGrowPolicy(const std::string& text, GrowPolicy* policy) {
  if (text == "checkpoint") return *policy = GrowPolicy::kAtCheckpoint, true;
  if (text == "now") return *policy = GrowPolicy::kNow, true;
  if (text == "never") return *policy = GrowPolicy::kNever, true;
  return false;
}

}  // namespace composer
