// The lease decides who may commit and delete in a folder of checkpoints: one launch of one run at a time.
//
// The folder holds numbered leases, `lease/00000007.json`; the highest number is the lease in force. A launch takes the
// folder by creating the next number, create-only, so that exactly one of several gets it, on any store with
// create-only writes. Its holder rewrites it every kLeaseInterval; nobody else ever does. Before each commit and each
// deletion the holder checks whether its number is still the highest, so a launch that was taken over cannot commit,
// however late it learns of it. The format is in docs/checkpoint_format.md.
//
// This file has the record and the decision, both pure; folder_lease.h is the shell.
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
inline constexpr absl::Duration kLeaseSilence = absl::Seconds(60);   // after which the holder is considered dead
inline constexpr char kLeaseFolder[] = "lease";
inline constexpr int64_t kMaxLeaseBytes = 64 << 10;
inline constexpr int64_t kMaxLeaseNumber = 99'999'999;
inline constexpr size_t kMaxLaunches = 64;

// A LeaseHolder identifies one launch.
struct LeaseHolder {
  std::string run_name;
  std::string run_id;  // run_identity.h; "": the program has no run folder, and only its name identifies it
  // These ids identify its launchers; there are at most kMaxLaunches. Worlds of one launch share at least one, since a
  // launch does not lose all its nodes at once.
  std::vector<std::string> launches;
  uint64_t generation = 0;
  // Rank 0's, such as "host-a, pid 4711": for people, and to distinguish a process from others of its launch.
  std::string process;

  bool operator==(const LeaseHolder&) const = default;
};

struct LeaseRecord {
  LeaseHolder holder;
  // It took over from these launches of the same run, newest first.
  std::vector<std::string> superseded;
  bool released = false;  // its holder has said that it ended
  int64_t renewals = 0;
  std::string renewed_at;  // RFC 3339, UTC; for people: no decision depends on it

  bool operator==(const LeaseRecord&) const = default;
};

// These convert a number to "lease/00000007.json" and back; any other text gives nullopt.
std::string LeaseKey(int64_t number);
std::optional<int64_t> LeaseNumber(absl::string_view key);

std::string SerializeLease(const LeaseRecord& lease);
// The text is hostile input: returns kDataLoss on anything that SerializeLease does not write, but ignores unknown
// members.
absl::StatusOr<LeaseRecord> ParseLease(absl::string_view text);

// A LeaseSight is what a launch that wants the folder has seen of the lease in force.
struct LeaseSight {
  bool there = false;
  // nullopt with `there` means that it is not readable, so its holder is unknown.
  std::optional<LeaseRecord> record;
  bool renewed = false;   // it changed while this launch was watching, so its holder is alive
  absl::Duration silent;  // the time since it last changed, by this process's own clock
};

enum class LeaseAction {
  kClaim,   // create the next number
  kShare,   // the same process already holds it, for another of its savers
  kWatch,   // check again soon
  kRefuse,  // `refusal` says why and what to do
};
struct LeaseDecision {
  LeaseAction action = LeaseAction::kClaim;
  absl::Status refusal;  // kFailedPrecondition
};

// A later launch of the same run takes over at once, unless it was itself taken over. Another run waits for a silent
// holder and is refused by one that is not. `location` is that of the folder, for the message.
LeaseDecision DecideLease(const LeaseHolder& me, const LeaseSight& sight, absl::string_view location);

// Returns the record with which `me` follows `previous`.
LeaseRecord NextLease(const LeaseHolder& me, const std::optional<LeaseRecord>& previous);

// Returns the error for the holder of a lease who finds `current` above its own: kUnavailable when that is a later
// generation of the same launch, else kFailedPrecondition.
absl::Status FencedBy(const LeaseHolder& me, const std::optional<LeaseRecord>& current, absl::string_view location);

}  // namespace composer
