// Tests the message of a failure (the cause first, on one screen) and what is sent to the other nodes.
// SPDX-License-Identifier: Apache-2.0
#include "launcher/supervise/failure_message.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "launcher/supervise/user_error.h"

namespace composer {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

TEST(DescribeFailureTest, CauseFirstAndOneScreen) {
  FailureReport report = {.exit = {.rank = 3, .status = {.signal = 9}, .kill = "out of memory"},
                          .node = "n1",
                          .pid = 77,
                          .log_path = "/run/log"};
  for (int i = 0; i < 20; ++i) report.stderr_tail.push_back(absl::StrCat("line ", i, std::string(500, 'x')));
  const std::string text = DescribeFailure(report);
  EXPECT_THAT(text, StartsWith("rank 3 on n1 (pid 77) was killed by SIGKILL (9): out of memory\n"));
  EXPECT_THAT(text, AllOf(HasSubstr("| line 19"), Not(HasSubstr("| line 7x")), HasSubstr("its log: /run/log")));
  EXPECT_LE(std::count(text.begin(), text.end(), '\n') + 1, 16);
  EXPECT_LT(text.size(), 12 * 220 + 200u);
}

TEST(DescribeFailureTest, AMissingModuleNamesTheInterpreter) {
  FailureReport report = {
      .exit = {.rank = 0, .status = {.code = 1}, .last_line = "ModuleNotFoundError: No module named 'torch'"},
      .node = "n1",
      .python = "/usr/bin/python3"};
  EXPECT_THAT(DescribeFailure(report), HasSubstr("\n  it ran under /usr/bin/python3"));
  report.exit.last_line = "ValueError: 3";
  EXPECT_THAT(DescribeFailure(report), Not(HasSubstr("python3")));
}

TEST(DescribeRanksTest, Ranges) {
  EXPECT_EQ(DescribeRanks({}), "");
  EXPECT_EQ(DescribeRanks({4}), "4");
  EXPECT_EQ(DescribeRanks({7, 0, 2, 3, 4, 8}), "0, 2-4, 7, 8");
}

TEST(DescribeCollateralTest, ByReason) {
  std::vector<WorkerExit> exits = {{.rank = 1, .status = {.signal = 11}},
                                   {.rank = 0, .status = {.code = 69}},
                                   {.rank = 2, .status = {.signal = 9}, .ended_by_us = true},
                                   {.rank = 3, .status = {.signal = 9}, .ended_by_us = true}};
  EXPECT_EQ(DescribeCollateral(exits, 0),
            "collateral: ranks 2, 3 (ended by the launcher), rank 0 (its peers were gone (69))");
  EXPECT_EQ(DescribeCollateral({exits[0]}, 0), "");
}

TEST(VerdictMessageTest, TravelsThereAndBack) {
  const Verdict verdict = {.next = NextStep::kRestart,
                           .exit_code = 0,
                           .first_cause = 2,
                           .tally = {.spent = 2, .start_spent = 1, .restarts = 5, .user_error = "1: KeyError"},
                           .reason = "rank 1 exited with 1",
                           .decision = "restart 2 of 3"};
  proto::FailureCause cause =
      ToProto(FailureReport{.exit = {.rank = 1, .status = {.code = 1}, .last_line = "disk full"}}, "node-b", true,
              absl::UnixEpoch());
  *cause.mutable_verdict() = ToProto(verdict);
  const RemoteEnd end = FromProto(cause);
  EXPECT_EQ(end.cause, "rank 1 exited with 1: disk full (node node-b)");
  EXPECT_FALSE(end.collateral);
  ASSERT_TRUE(end.verdict.has_value());
  EXPECT_EQ(end.verdict->next, NextStep::kRestart);
  EXPECT_EQ(end.verdict->first_cause, -1);
  EXPECT_EQ(end.verdict->tally.spent, 2);
  EXPECT_EQ(end.verdict->tally.start_spent, 1);
  EXPECT_EQ(end.verdict->tally.restarts, 5);
  EXPECT_EQ(end.verdict->tally.user_error, "1: KeyError");
  EXPECT_EQ(end.verdict->decision, "restart 2 of 3");
}

TEST(VerdictMessageTest, HostileNumbersAreBounded) {
  proto::FailureCause cause;
  cause.set_rank(-1);
  cause.mutable_verdict()->set_next(proto::Verdict::GIVE_UP);
  cause.mutable_verdict()->set_exit_code(-5);
  cause.mutable_verdict()->mutable_tally()->set_spent(-1);
  const RemoteEnd end = FromProto(cause);
  ASSERT_TRUE(end.verdict.has_value());
  EXPECT_EQ(end.verdict->exit_code, exit_code::kFailure);
  EXPECT_EQ(end.verdict->tally.spent, 0);
  cause.mutable_verdict()->set_next(static_cast<proto::Verdict::Next>(99));
  EXPECT_EQ(FromProto(cause).verdict->next, NextStep::kGiveUp);
  cause.clear_verdict();
  EXPECT_FALSE(FromProto(cause).verdict.has_value());
}

TEST(UserErrorTest, Table) {
  struct Case {
    ExitStatus status;
    const char* line;
    bool expected;
  };
  for (const Case& c : std::vector<Case>{
           {{.code = 1}, "ModuleNotFoundError: No module named 'x'", true},
           {{.code = 1}, "KeyError: 'lr'", true},
           {{.code = 1}, "AssertionError", true},
           {{.code = 1}, "RuntimeError: CUDA error: an illegal memory access", false},
           {{.code = 1}, "torch.distributed.DistBackendError: NCCL", false},
           {{.code = 1}, "ConnectionResetError: [Errno 104]", false},
           {{.code = 1}, "OSError: [Errno 28] No space left on device", false},
           {{.code = 1}, "", false},
           {{.code = 2}, "train.py: error: unrecognized arguments: --foo", true},
           {{.code = 2}, "something else", false},
           {{.code = 127}, "sh: 1: trian: not found", true},
           {{.signal = 11}, "ValueError: x", false},
           {{}, "ValueError: x", false},
       }) {
    EXPECT_EQ(!UserError(c.status, c.line).empty(), c.expected) << c.line;
  }
}

}  // namespace
}  // namespace composer
