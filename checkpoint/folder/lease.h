// Who may commit and delete in a folder of checkpoints: one launch of one run at a time.
//
// The folder holds numbered leases, `lease/00000007.json`; the highest number is the lease in force. A launch takes the
// folder by creating the next number, create-only, so that of several exactly one gets it, on any store that can create
// only. Its holder rewrites it every kLeaseInterval; nobody else ever does. Before each commit and each deletion the
// holder looks whether its number is still the highest: so a launch that was taken over cannot commit, however late it
// learns of it. The format is in docs/checkpoint_format.md.
//
// This file is the record and the decision, both pure; folder_lease.h is the shell.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace composer {

inline constexpr absl::Duration kLeaseInterval = absl::Seconds(10);  // between two renewals
inline constexpr absl::Duration kLeaseSilence = absl::Seconds(60);   // after which the holder counts as dead
inline constexpr char kLeaseFolder[] = "lease";
inline constexpr int64_t kMaxLeaseBytes = 64 << 10;
inline constexpr int64_t kMaxLeaseNumber = 99'999'999;
inline constexpr size_t kMaxLaunches = 64;

// One launch as it presents itself.
struct LeaseHolder {
  std::string run_name;
  std::string run_id;  // run_identity.h; "": the program has no run folder, and its name is all there is
  std::vector<std::string>
      launches;  // an id of each of its launchers; at most kMaxLaunches. Worlds of one launch share
                 // at least one, as a launch does not lose all its nodes at once
  uint64_t generation = 0;
  std::string process;  // "host-a, pid 4711": rank 0, for people, and to tell a process from others of its launch

  bool operator==(const LeaseHolder&) const = default;
};

struct LeaseRecord {
  LeaseHolder holder;
  std::vector<std::string> superseded;  // launches of the same run that it took over from, newest first
  bool released = false;                // its holder has ended and said so
  int64_t renewals = 0;
  std::string renewed_at;  // RFC 3339, UTC; for people: no decision looks at it

  bool operator==(const LeaseRecord&) const = default;
};

// "lease/00000007.json", and back; nullopt for any other text.
std::string LeaseKey(int64_t number);
std::optional<int64_t> LeaseNumber(absl::string_view key);

std::string SerializeLease(const LeaseRecord& lease);
// Hostile input: kDataLoss on anything that SerializeLease does not write, but for members that it does not know.
absl::StatusOr<LeaseRecord> ParseLease(absl::string_view text);

// What a launch that wants the folder has seen of the lease in force.
struct LeaseSight {
  bool there = false;
  std::optional<LeaseRecord> record;  // nullopt with `there`: it is not readable, so nobody knows who holds it
  bool renewed = false;               // it changed while this launch was watching: its holder lives
  absl::Duration silent;              // for so long it has not changed, by this process's own clock
};

enum class LeaseAction {
  kClaim,   // create the next number
  kShare,   // the same process holds it already, for another of its savers
  kWatch,   // look again in a moment
  kRefuse,  // `refusal` says why and what to do
};
struct LeaseDecision {
  LeaseAction action = LeaseAction::kClaim;
  absl::Status refusal;  // kFailedPrecondition
};

// A later launch of the same run takes over at once; one that was itself taken over never does. Another run waits for a
// holder that is silent, and is refused by one that is not. location: of the folder, for the message.
LeaseDecision DecideLease(const LeaseHolder& me, const LeaseSight& sight, absl::string_view location);

// The record with which `me` follows `previous`.
LeaseRecord NextLease(const LeaseHolder& me, const std::optional<LeaseRecord>& previous);

// What the holder of a lease is told that finds `current` above its own. kUnavailable when it is a later generation of
// the same launch, else kFailedPrecondition.
absl::Status FencedBy(const LeaseHolder& me, const std::optional<LeaseRecord>& current, absl::string_view location);

}  // namespace composer
