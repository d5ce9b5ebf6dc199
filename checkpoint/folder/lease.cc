// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/folder/lease.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "base/format/json.h"
#include "base/json_members.h"
#include "base/printable.h"
#include "checkpoint/format/json_text.h"

namespace composer {
namespace {

using Json = nlohmann::json;

constexpr char kLeaseFormat[] = "composer-lease";
constexpr size_t kLeaseDigits = 8;

absl::Status NotALease(absl::string_view why) { return absl::DataLossError(absl::StrCat("not a lease: ", why)); }

bool ShareAny(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  return std::any_of(a.begin(), a.end(),
                     [&](const std::string& id) { return std::find(b.begin(), b.end(), id) != b.end(); });
}

bool SameRun(const LeaseHolder& a, const LeaseHolder& b) {
  return ShareAny(a.launches, b.launches) || (a.run_name == b.run_name && a.run_id == b.run_id);
}

// Foreign text goes into a message without control characters.
std::string HolderName(const LeaseHolder& holder) {
  return absl::StrCat("run \"", Printable(holder.run_name), "\" (", Printable(holder.process), ")");
}

absl::Status FolderInUse(const LeaseHolder& me, const std::optional<LeaseRecord>& current, absl::string_view location) {
  const std::string who = current.has_value() ? HolderName(current->holder) : "another program";
  const bool same_name = current.has_value() && current->holder.run_name == me.run_name;
  return absl::FailedPreconditionError(absl::StrCat(
      location, " is in use by ", who,
      ", which renews its lease there; two runs would delete each other's checkpoints. Wait for it, stop it, or set "
      "another save_folder",
      same_name ? ". If this is meant to be the same run, start it with the same run_folder"
                : " (save_folder may contain {run_name})"));
}

absl::Status TakenOver(const std::optional<LeaseRecord>& current, absl::string_view location) {
  return absl::FailedPreconditionError(absl::StrCat(
      "a later launch of this run, ", current.has_value() ? HolderName(current->holder) : "of which nothing is known",
      ", has taken over ", location, ": this launch saves nothing there any more, and that one continues"));
}

}  // namespace

std::string LeaseKey(int64_t number) { return absl::StrFormat("%s/%08d.json", kLeaseFolder, number); }

std::optional<int64_t> LeaseNumber(absl::string_view key) {
  const bool ours = absl::ConsumePrefix(&key, kLeaseFolder) && absl::ConsumePrefix(&key, "/") &&
                    absl::ConsumeSuffix(&key, ".json") && key.size() == kLeaseDigits &&
                    std::all_of(key.begin(), key.end(), absl::ascii_isdigit);
  int64_t number = 0;
  if (!ours || !absl::SimpleAtoi(key, &number) || number < 1) return std::nullopt;
  return number;
}

std::string SerializeLease(const LeaseRecord& lease) {
  const Json json = {{"format", kLeaseFormat},
                     {"version", 1},
                     {"run_name", lease.holder.run_name},
                     {"run_id", lease.holder.run_id},
                     {"launches", lease.holder.launches},
                     {"generation", lease.holder.generation},
                     {"process", lease.holder.process},
                     {"superseded", lease.superseded},
                     {"released", lease.released},
                     {"renewals", lease.renewals},
                     {"renewed_at", lease.renewed_at}};
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

absl::StatusOr<LeaseRecord> ParseLease(absl::string_view text) {
  if (text.size() > static_cast<size_t>(kMaxLeaseBytes)) return NotALease("too long");
  if (!CheckJson(text, {.max_depth = 8, .max_values = 10'000}).ok()) return NotALease("no JSON");
  const Json json = ParseJson(text);
  if (!json.is_object()) return NotALease("no object");
  std::string format;
  int64_t version = 0;
  if (!TakeMember(json, "format", format) || format != kLeaseFormat) return NotALease("another format");
  if (!TakeMember(json, "version", version) || version != 1) return NotALease("another version");
  LeaseRecord lease;
  if (!TakeMember(json, "run_name", lease.holder.run_name) || !TakeMember(json, "run_id", lease.holder.run_id) ||
      !TakeMember(json, "launches", lease.holder.launches) ||
      !TakeMember(json, "generation", lease.holder.generation) || !TakeMember(json, "process", lease.holder.process) ||
      !TakeMember(json, "superseded", lease.superseded) || !TakeMember(json, "released", lease.released) ||
      !TakeMember(json, "renewals", lease.renewals) || !TakeMember(json, "renewed_at", lease.renewed_at))
    return NotALease("a member is missing, or of another type");
  return lease;
}

LeaseDecision DecideLease(const LeaseHolder& me, const LeaseSight& sight, absl::string_view location) {
  if (!sight.there) return {LeaseAction::kClaim};
  if (sight.record.has_value()) {
    const LeaseRecord& current = *sight.record;
    const bool same_launch = ShareAny(me.launches, current.holder.launches);
    const bool same_process = same_launch && me.generation == current.holder.generation &&
                              me.process == current.holder.process;  // a generation starts only one rank 0
    if (same_process && !current.released) return {LeaseAction::kShare};
    if (!same_launch && SameRun(me, current.holder) && ShareAny(me.launches, current.superseded))
      return {LeaseAction::kRefuse, TakenOver(sight.record, location)};
    if (current.released || SameRun(me, current.holder)) return {LeaseAction::kClaim};
  }
  if (sight.renewed) return {LeaseAction::kRefuse, FolderInUse(me, sight.record, location)};
  return {sight.silent >= kLeaseSilence ? LeaseAction::kClaim : LeaseAction::kWatch};
}

LeaseRecord NextLease(const LeaseHolder& me, const std::optional<LeaseRecord>& previous) {
  LeaseRecord next;
  next.holder = me;
  if (!previous.has_value() || !SameRun(me, previous->holder)) return next;
  // The nodes of this launch's last generation may come back and hold the lease again.
  std::vector<std::string> before;
  if (!ShareAny(me.launches, previous->holder.launches)) before = previous->holder.launches;
  before.insert(before.end(), previous->superseded.begin(), previous->superseded.end());
  for (const std::string& id : before) {
    const bool mine = std::find(me.launches.begin(), me.launches.end(), id) != me.launches.end();
    if (!mine && next.superseded.size() < kMaxLaunches) next.superseded.push_back(id);
  }
  return next;
}

absl::Status FencedBy(const LeaseHolder& me, const std::optional<LeaseRecord>& current, absl::string_view location) {
  if (!current.has_value() || !SameRun(me, current->holder)) return FolderInUse(me, current, location);
  if (!ShareAny(me.launches, current->holder.launches)) return TakenOver(current, location);
  return absl::UnavailableError(absl::StrCat("generation ", current->holder.generation, " of this launch, ",
                                             HolderName(current->holder), ", has taken over ", location));
}

}  // namespace composer
