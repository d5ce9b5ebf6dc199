// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/folder/lease.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace composer {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

const LeaseHolder kMe = {"run", "0000000000000001", {"launch-b"}, 3, "host-b, pid 2"};

LeaseRecord HeldBy(LeaseHolder holder) {
  LeaseRecord record;
  record.holder = std::move(holder);
  return record;
}
LeaseHolder With(LeaseHolder holder, void (*change)(LeaseHolder&)) {
  change(holder);
  return holder;
}
LeaseRecord Released(LeaseRecord record) {
  record.released = true;
  return record;
}

const LeaseHolder kEarlier = With(kMe, [](LeaseHolder& h) {
  h.launches = {"launch-a"};
  h.process = "host-a, pid 1";
});
const LeaseHolder kOtherRun = With(kEarlier, [](LeaseHolder& h) {
  h.run_name = "other";
  h.run_id = "0000000000000002";
});
// The same job file in another run folder.
const LeaseHolder kSameName = With(kEarlier, [](LeaseHolder& h) { h.run_id = "0000000000000002"; });

TEST(Lease, WhoMayTakeAFolder) {
  LeaseRecord later = HeldBy(kEarlier);
  later.superseded = {"launch-b"};
  const struct {
    const char* what;
    LeaseSight sight;
    LeaseAction action;
  } table[] = {
      {"a new folder", {}, LeaseAction::kClaim},
      {"an earlier launch of the run, whether it lives or not",
       {true, HeldBy(kEarlier), true, {}},
       LeaseAction::kClaim},
      {"this launch's last generation",
       {true, HeldBy(With(kMe, [](LeaseHolder& h) { h.generation = 2; })), false, {}},
       LeaseAction::kClaim},
      {"this launch, another process",
       {true, HeldBy(With(kMe, [](LeaseHolder& h) { h.process = "x"; })), false, {}},
       LeaseAction::kClaim},
      {"this launch after it lost a node",
       {true, HeldBy(With(kEarlier, [](LeaseHolder& h) { h.launches = {"launch-a", "launch-b"}; })), false, {}},
       LeaseAction::kClaim},
      {"another saver of this process", {true, HeldBy(kMe), true, {}}, LeaseAction::kShare},
      {"this process, which had ended its saving", {true, Released(HeldBy(kMe)), true, {}}, LeaseAction::kClaim},
      {"a later launch of the run, which took over from this one",
       {true, later, false, absl::Hours(1)},
       LeaseAction::kRefuse},
      {"another run that has ended", {true, Released(HeldBy(kOtherRun)), false, {}}, LeaseAction::kClaim},
      {"another run that may live", {true, HeldBy(kOtherRun), false, absl::Seconds(59)}, LeaseAction::kWatch},
      {"another run that is silent", {true, HeldBy(kOtherRun), false, absl::Seconds(60)}, LeaseAction::kClaim},
      {"another run that lives", {true, HeldBy(kOtherRun), true, {}}, LeaseAction::kRefuse},
      {"a run of the same name, in another run folder", {true, HeldBy(kSameName), true, {}}, LeaseAction::kRefuse},
      {"the same, silent", {true, HeldBy(kSameName), false, absl::Minutes(1)}, LeaseAction::kClaim},
      {"something unreadable", {true, std::nullopt, false, absl::Seconds(1)}, LeaseAction::kWatch},
      {"something unreadable that changes", {true, std::nullopt, true, {}}, LeaseAction::kRefuse},
      {"something unreadable and silent", {true, std::nullopt, false, absl::Minutes(1)}, LeaseAction::kClaim},
  };
  for (const auto& row : table) {
    const LeaseDecision decision = DecideLease(kMe, row.sight, "s3://b/x");
    EXPECT_EQ(decision.action, row.action) << row.what;
    EXPECT_EQ(decision.refusal.ok(), row.action != LeaseAction::kRefuse) << row.what;
    if (!decision.refusal.ok()) EXPECT_EQ(decision.refusal.code(), absl::StatusCode::kFailedPrecondition) << row.what;
  }
}

TEST(Lease, ProgramsWithoutARunFolderAreKnownByTheirName) {
  const auto no_id = [](LeaseHolder& h) { h.run_id = ""; };
  EXPECT_EQ(DecideLease(With(kMe, no_id), {true, HeldBy(With(kEarlier, no_id)), true, {}}, "x").action,
            LeaseAction::kClaim);
  EXPECT_EQ(DecideLease(With(kMe, no_id), {true, HeldBy(kEarlier), true, {}}, "x").action, LeaseAction::kRefuse);
}

TEST(Lease, RefusalsSayWhoAndWhatToSetWithoutControlCharacters) {
  LeaseHolder hostile = kOtherRun;
  hostile.run_name = "o\x1b[2Jther";
  const absl::Status other = DecideLease(kMe, {true, HeldBy(hostile), true, {}}, "s3://b/x").refusal;
  EXPECT_THAT(std::string(other.message()),
              AllOf(HasSubstr("s3://b/x is in use by run \"o\\x1b[2Jther\" (host-a, pid 1)"),
                    HasSubstr("set another save_folder"), HasSubstr("{run_name}")));
  const absl::Status same = DecideLease(kMe, {true, HeldBy(kSameName), true, {}}, "s3://b/x").refusal;
  EXPECT_THAT(std::string(same.message()), HasSubstr("start it with the same run_folder"));
}

TEST(Lease, TheNextOneRemembersWhomTheRunTookItFrom) {
  LeaseRecord current = HeldBy(kEarlier);
  current.superseded = {"launch-0"};
  EXPECT_THAT(NextLease(kMe, current).superseded, ElementsAre("launch-a", "launch-0"));
  EXPECT_EQ(NextLease(kMe, current).holder, kMe);
  EXPECT_TRUE(NextLease(kMe, std::nullopt).superseded.empty());
  EXPECT_TRUE(NextLease(kMe, HeldBy(kOtherRun)).superseded.empty());
  // Nodes of a launch come and go; one that was away may hold the lease again.
  LeaseRecord both = HeldBy(kEarlier);
  both.holder.launches = {"launch-a", "launch-b"};
  both.superseded = {"launch-0"};
  EXPECT_THAT(NextLease(kMe, both).superseded, ElementsAre("launch-0"));
  for (size_t i = 0; i < 100; ++i) current.superseded.push_back("launch");
  EXPECT_EQ(NextLease(kMe, current).superseded.size(), kMaxLaunches);
}

TEST(Lease, WhoWasTakenOverIsToldWhetherTryingAgainHelps) {
  EXPECT_EQ(FencedBy(kMe, HeldBy(kEarlier), "x").code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(FencedBy(kMe, HeldBy(kOtherRun), "x").code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(FencedBy(kMe, std::nullopt, "x").code(), absl::StatusCode::kFailedPrecondition);
  const auto later = [](LeaseHolder& h) { h.generation = 4; };
  EXPECT_EQ(FencedBy(kMe, HeldBy(With(kMe, later)), "x").code(), absl::StatusCode::kUnavailable);
}

TEST(Lease, Keys) {
  EXPECT_EQ(LeaseKey(7), "lease/00000007.json");
  EXPECT_EQ(LeaseNumber("lease/00000007.json"), 7);
  EXPECT_EQ(LeaseNumber(LeaseKey(kMaxLeaseNumber)), kMaxLeaseNumber);
  for (const char* bad :
       {"", "lease", "lease/", "lease/7.json", "lease/00000000.json", "lease/0000000a.json", "lease/00000007",
        "lease/000000007.json", "x/00000007.json", "lease/-0000007.json", "lease/00000007.json/x"})
    EXPECT_EQ(LeaseNumber(bad), std::nullopt) << bad;
}

TEST(Lease, IsReadAsItWasWrittenAndNothingElseIsRead) {
  LeaseRecord lease = HeldBy(kMe);
  lease.superseded = {"launch-0"};
  lease.renewals = 12;
  lease.renewed_at = "2026-11-22T14:00:00Z";
  const std::string text = SerializeLease(lease);
  ASSERT_EQ(*ParseLease(text), lease);
  for (size_t size = 0; size < text.size() - 1; ++size) EXPECT_FALSE(ParseLease(text.substr(0, size)).ok()) << size;
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string changed = text;
    const size_t at = changed.find(from);
    return at == std::string::npos ? std::string("missing") : changed.replace(at, from.size(), to);
  };
  EXPECT_TRUE(ParseLease(with("\"renewals\": 12", "\"renewals\": 12, \"new\": [1]")).ok());
  for (const std::string& bad :
       {with("\"version\": 1", "\"version\": 2"), with("composer-lease", "composer-least"),
        with("\"renewals\": 12", "\"renewals\": -1"), with("\"renewals\": 12", "\"renewals\": 1e99"),
        with("\"renewals\": 12", "\"renewals\": 18446744073709551615"), with("\"released\": false", "\"released\": 0"),
        with("\"generation\": 3", "\"generation\": \"3\""), with("\"run_name\": \"run\"", "\"run_name\": null"),
        with("\"run\"", "\"" + std::string(5000, 'x') + "\""), with("{", "[{"), text + "x",
        std::string(70'000, ' ') + text})
    EXPECT_FALSE(ParseLease(bad).ok()) << bad.substr(0, 200);
}

}  // namespace
}  // namespace composer
