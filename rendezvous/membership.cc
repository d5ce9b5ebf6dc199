// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/membership.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace composer {
namespace {

using Kind = MembershipDecision::Kind;

std::string Nodes(int count) { return absl::StrCat(count, count == 1 ? " node" : " nodes"); }

MembershipDecision Nothing(std::string reason) { return {Kind::kNothing, {}, std::move(reason)}; }

// `kind` at `at`, until then a wait with its own reason.
MembershipDecision At(absl::Time at, absl::Time now, Kind kind, std::string then, std::string meanwhile) {
  if (now >= at) return {kind, {}, std::move(then)};
  return {Kind::kWait, at, std::move(meanwhile)};
}

MembershipDecision DecideGrowth(const RollCall& roll, const MembershipPolicy& policy, absl::Time now) {
  const std::string running = absl::StrCat("generation ", roll.last_generation, " is running");
  if (roll.waiting == 0) return Nothing(running);
  if (roll.members >= policy.max_nodes) return Nothing(absl::StrCat(running, ", ", Nodes(roll.waiting), " spare"));
  if (policy.grow == GrowPolicy::kNever) {
    return Nothing(absl::StrCat(running, ", ", Nodes(roll.waiting), " wait for its end (grow is never)"));
  }
  return At(
      roll.last_waiting + kGrowSettle, now, Kind::kRegroup,
      absl::StrCat("the world grows from ", roll.members, " to ",
                   std::min(policy.max_nodes, roll.members + roll.waiting), " of at most ", Nodes(policy.max_nodes)),
      absl::StrCat(running, ", ", Nodes(roll.waiting), " will be added"));
}

// Of the nodes that are connected: those that still end their workers will join.
bool HasQuorum(const RollCall& roll, const MembershipPolicy& policy) {
  if (!policy.quorum) return true;
  if (roll.last_generation == 0) return IsMajority(roll.waiting, policy.max_nodes, policy.holds_tie);
  return IsMajority(roll.present, roll.members, roll.first_present) &&
         std::all_of(roll.before.begin(), roll.before.end(), Agrees);
}

// Only nodes that will be in the world count: a connection that is dead without our knowing is then one that it lacks.
MembershipDecision Form(const RollCall& roll, const MembershipPolicy& policy, std::string reason) {
  if (policy.quorum && roll.last_generation > 0 &&
      !IsMajority(roll.present_waiting, roll.members, roll.first_waiting)) {
    return Nothing(absl::StrCat(roll.present_waiting, " of the ", Nodes(roll.members), " of generation ",
                                roll.last_generation, " have ended their workers, more than half are needed"));
  }
  return {Kind::kForm, {}, std::move(reason)};
}

MembershipDecision FormAt(absl::Time at, absl::Time now, const RollCall& roll, const MembershipPolicy& policy,
                          std::string then, std::string meanwhile) {
  if (now >= at) return Form(roll, policy, std::move(then));
  return {Kind::kWait, at, std::move(meanwhile)};
}

MembershipDecision DecideRunning(const RollCall& roll, const MembershipPolicy& policy, absl::Time now) {
  if (roll.expected > 0) {
    return At(roll.expected_until, now, Kind::kEnd,
              absl::StrCat(roll.expected, " of the ", Nodes(roll.members), " of generation ", roll.last_generation,
                           " did not come back to the rendezvous in time"),
              absl::StrCat("generation ", roll.last_generation, " is running, ", roll.expected, " of its ",
                           Nodes(roll.members), " not back at the rendezvous yet"));
  }
  if (roll.regrouping) {
    return Nothing(absl::StrCat("generation ", roll.last_generation, " is ending, so that the world can grow"));
  }
  return DecideGrowth(roll, policy, now);
}

}  // namespace

MembershipDecision DecideMembership(const RollCall& roll, const MembershipPolicy& policy, absl::Time now) {
  if (roll.running) return DecideRunning(roll, policy, now);
  if (now < roll.settled) {  // also when one that is over is known: a newer one may run
    return {Kind::kWait, roll.settled, "the rendezvous was just started: nodes of a running world may come back"};
  }
  // Without a list it is time alone that keeps two worlds apart: the launchers over there counted their grace from when
  // they noticed, which may be later than when we did, and end their workers then. With one the quorum does.
  const absl::Time unseen_until = roll.ended + policy.grace + (policy.quorum ? absl::ZeroDuration() : kSurvivorWait);
  if (roll.last_generation > 0 && !roll.broken && roll.waiting > 0 && now < unseen_until) {
    return {Kind::kWait, unseen_until,
            absl::StrCat("the nodes of generation ", roll.last_generation,
                         " were lost together: cut off from here, they may go on for a while")};
  }
  const int ending = roll.present - roll.present_waiting;
  const int expected = now < roll.expected_until ? roll.expected : 0;  // later ones have had their time
  const int missing = ending + expected;                               // survivors that may still come
  if (!HasQuorum(roll, policy)) {
    if (roll.all_here)
      return {Kind::kForm, {}, absl::StrCat("all ", Nodes(policy.max_nodes), " are here"), /*anew=*/true};
    const bool first = roll.last_generation == 0;
    const std::string who =
        first ? absl::StrCat(roll.waiting, " of at most ", Nodes(policy.max_nodes))
              : absl::StrCat(roll.present, " of the ", Nodes(roll.members), " of generation ", roll.last_generation);
    const std::string why = absl::StrCat(who, " are here, more than half are needed",
                                         roll.before.empty() ? "" : ", also of the worlds before it");
    if (roll.waiting == 0) return Nothing(why);
    return At((first ? roll.last_waiting : roll.ended) + policy.quorum_wait, now, Kind::kDissolve, why, why);
  }
  if (roll.waiting < policy.min_nodes) {
    const std::string why = absl::StrCat(Nodes(roll.waiting), " here, at least ", policy.min_nodes, " needed");
    const bool others_may_serve = policy.quorum && (roll.last_generation == 0 || !policy.holds_tie);
    if (!others_may_serve || roll.waiting == 0) return Nothing(why);
    return At(roll.last_waiting + policy.quorum_wait, now, Kind::kDissolve, why, why);
  }
  if (roll.waiting >= policy.max_nodes) {
    const std::string all = absl::StrCat("all ", Nodes(policy.max_nodes), " are here");
    if (missing == 0) return Form(roll, policy, all);
    return FormAt(
        roll.ended + kSurvivorPreference, now, roll, policy, all,
        absl::StrCat(Nodes(missing), " left of generation ", roll.last_generation, " may be back in a moment"));
  }
  if (roll.present > 0 && missing == 0) {
    return Form(roll, policy,
                absl::StrCat("the ", Nodes(roll.present), " left of generation ", roll.last_generation, " are back"));
  }
  absl::Time deadline = roll.min_reached + policy.last_call;
  const absl::Time survivors_until = roll.ended + kSurvivorWait;
  if (ending > 0) deadline = std::max(deadline, survivors_until);
  if (expected > 0) {
    deadline = std::max(deadline, std::min(roll.expected_until, survivors_until));
    if (ending == 0 && roll.present > 0) deadline = std::min(deadline, roll.expected_until);  // the rest is back then
  }
  return FormAt(
      deadline, now, roll, policy,
      absl::StrCat(Nodes(roll.waiting), " of at most ", policy.max_nodes, " are here and the last call is over"),
      missing > 0 ? absl::StrCat(missing, " of the ", Nodes(roll.present + expected), " left of generation ",
                                 roll.last_generation, " not back yet")
                  : absl::StrCat("last call: ", Nodes(roll.waiting), " of at most ", policy.max_nodes, " are here"));
}

bool ParseGrowPolicy(const std::string& text, GrowPolicy* policy) {
  if (text == "checkpoint") return *policy = GrowPolicy::kAtCheckpoint, true;
  if (text == "now") return *policy = GrowPolicy::kNow, true;
  if (text == "never") return *policy = GrowPolicy::kNever, true;
  return false;
}

}  // namespace composer
