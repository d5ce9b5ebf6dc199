// Tests how a job is displayed, and its rates.
// SPDX-License-Identifier: Apache-2.0
#include "launcher/control/job_status.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <limits>
#include <nlohmann/json.hpp>

#include "launcher/control/job_roster.h"
#include "launcher/supervise/goodput.h"
#include "proto/worker.pb.h"

namespace composer {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

proto::JobStatus Sample() {
  proto::JobStatus status;
  status.set_job("job");
  status.set_run_name("a \"run\" \\ of\nmine");
  status.set_host("h1");
  status.set_state("running");
  status.set_generation(3);
  status.set_restarts(2);
  status.set_world_size(2);
  status.set_nodes(1);
  status.set_step(120);
  status.set_samples(3840);
  status.set_goodput(0.875);
  status.set_wall_seconds(61);
  status.set_last_cause("rank 1 was killed by SIGKILL (9)");
  for (int rank : {0, 1}) {
    proto::RankStatus& r = *status.add_ranks();
    r.set_rank(rank);
    r.set_phase("training");
    r.set_step(120 - rank);
    r.set_loss(rank == 0 ? 0.25 : std::numeric_limits<double>::quiet_NaN());
    r.set_data_wait(rank == 0 ? 0.0625 : std::numeric_limits<double>::quiet_NaN());
    r.set_heartbeat_age_seconds(rank == 0 ? 0.5 : -1);
  }
  return status;
}

TEST(JobStatus, ForPeople) {
  EXPECT_THAT(DescribeStatus(Sample()),
              AllOf(HasSubstr("job: running for 1m1s"), HasSubstr("generation 3: 2 ranks on 1 node"),
                    HasSubstr("2 restarts"), HasSubstr("step 120, 3840 samples"), HasSubstr("goodput 87.5 %"),
                    HasSubstr("last failure: rank 1 was killed"), HasSubstr("0.25"), HasSubstr("0.5s"),
                    HasSubstr(" 6.2% "), Not(HasSubstr("waits for data"))));
  EXPECT_THAT(DescribeStatus({}), Not(HasSubstr("last failure")));
  proto::JobStatus later = Sample();
  later.set_launch(20);
  later.set_total_restarts(71);
  EXPECT_THAT(DescribeStatus(later), HasSubstr("launch 20 of the run; 71 restarts in all of them\n"));
  EXPECT_EQ(nlohmann::json::parse(StatusJson(later))["total_restarts"], 71);
}

TEST(JobStatus, SaysWhichRankWaitsLongestForData) {
  proto::JobStatus status = Sample();
  status.mutable_ranks(0)->set_data_wait(0.11);
  status.mutable_ranks(1)->set_data_wait(0.43);
  EXPECT_THAT(DescribeStatus(status), HasSubstr("\nrank 1 waits for data 43 % of the time: read ahead with more"));
  EXPECT_EQ(nlohmann::json::parse(StatusJson(status))["ranks"][1]["data_wait"], 0.43);
  EXPECT_THAT(PrometheusText(status), HasSubstr(",rank=\"1\"} 0.42999999999999999\n"));
  status.mutable_ranks(1)->set_phase("evaluating");
  EXPECT_THAT(DescribeStatus(status), HasSubstr("\nrank 0 waits for data 11 % of the time"));
}

TEST(JobStatus, SaysWhichRankIsStarved) {
  proto::JobStatus status = Sample();
  status.mutable_ranks(1)->set_starved("rank 1 is starved: it has had no step for 12s");
  EXPECT_THAT(DescribeStatus(status), HasSubstr("\nrank 1 is starved: it has had no step for 12s\n"));
  EXPECT_EQ(nlohmann::json::parse(StatusJson(status))["ranks"][1]["starved"], status.ranks(1).starved());
  EXPECT_EQ(nlohmann::json::parse(StatusJson(status))["ranks"][0]["starved"], "");
}

proto::JobStatus OfTwoNodes() {
  proto::JobStatus status = Sample();
  status.set_nodes(3);
  status.set_world_size(6);
  status.set_waiting(1);
  for (int node : {0, 1, 2}) {
    proto::NodePlacement& member = *status.add_members();
    member.set_node_rank(node);
    member.set_base_rank(2 * node);
    member.set_connected(node != 2);
    if (node == 2) continue;
    member.mutable_node()->set_hostname(node == 0 ? "h1" : "h2");
    member.mutable_node()->set_address("10.0.0.1");
    member.mutable_node()->set_node_group("switch-7");
    member.mutable_node()->set_slots(2);
    if (node == 0) continue;
    member.mutable_report()->set_state("running");
    member.mutable_report()->set_restarts(4);
    for (int local : {0, 1}) {
      proto::RankStatus& rank = *member.mutable_report()->add_ranks();
      rank.set_rank(2 + local);
      rank.set_phase("saving");
      rank.set_step(90 + local);
    }
  }
  return status;
}

TEST(JobStatus, OfAllNodesForPeople) {
  const std::string text = DescribeStatus(OfTwoNodes());
  EXPECT_THAT(text, testing::ContainsRegex("0 h1 +10.0.0.1 +0-1 no report +- +-\n"));
  EXPECT_THAT(text, testing::ContainsRegex("1 h2 +10.0.0.1 +2-3 running +91 +4\n"));
  EXPECT_THAT(text, testing::ContainsRegex("2 +- lost +- +-\n"));
  EXPECT_THAT(text, testing::ContainsRegex(" 3 +1 +0 +0 saving +91"));
  EXPECT_THAT(text, HasSubstr("1 more node waits"));
  proto::JobStatus large = OfTwoNodes();
  large.set_world_size(1000);
  EXPECT_THAT(DescribeStatus(large), Not(HasSubstr("saving"))) << "only this node's ranks";
}

TEST(JobStatus, OfAllNodesInJson) {
  const nlohmann::json json = nlohmann::json::parse(StatusJson(OfTwoNodes()));
  ASSERT_EQ(json["members"].size(), 3u);
  EXPECT_EQ(json["members"][1]["host"], "h2");
  EXPECT_EQ(json["members"][1]["group"], "switch-7");
  EXPECT_EQ(json["members"][1]["ranks"][1]["step"], 91);
  EXPECT_TRUE(json["members"][0]["restarts"].is_null());
  EXPECT_TRUE(json["members"][1]["ranks"][0]["behind"].is_boolean());
  EXPECT_EQ(json["members"][2]["state"], "lost");
  EXPECT_EQ(json["waiting"], 1);
}

// The dashboard of so many ranks asks every 3 seconds. How long its answer takes is printed, not judged.
TEST(JobStatus, AThousandRanksInJson) {
  proto::JobStatus status = Sample();
  status.set_world_size(1000);
  for (int node = 0; node < 125; ++node) {
    proto::NodePlacement& member = *status.add_members();
    member.set_node_rank(node);
    member.set_connected(true);
    member.mutable_node()->set_hostname(absl::StrCat("node-", node));
    for (int local = 0; local < 8; ++local) {
      proto::RankStatus& rank = *member.mutable_report()->add_ranks();
      rank.set_rank(8 * node + local);
      rank.set_phase("training");
      rank.set_step(rank.rank() == 17 ? 997 : 1000);
      rank.set_loss(0.5);
    }
  }
  constexpr int kTimes = 20;
  const std::clock_t begin = std::clock();
  std::string text;
  for (int i = 0; i < kTimes; ++i) text = StatusJson(status);
  const double seconds = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC / kTimes;
  std::printf("%.2f ms of a core, %zu bytes; every 3 s that is %.2f %% of a core\n", 1e3 * seconds, text.size(),
              100 * seconds / 3);
  const nlohmann::json json = nlohmann::json::parse(text);
  int behind = 0;
  for (const auto& member : json["members"]) {
    for (const auto& rank : member["ranks"]) behind += rank["behind"].get<bool>() ? 1 : 0;
  }
  EXPECT_EQ(behind, 1) << "three steps, which is more than two";
}

// A rendezvous of some nodes, of which the odd ones never report.
class FakeRoster {
 public:
  explicit FakeRoster(int nodes) : nodes_(nodes) {}
  absl::StatusOr<proto::RosterReply> operator()(int first, int count, bool look) {
    looks_ += look ? 1 : 0;
    proto::RosterReply reply;
    reply.set_nodes(nodes_);
    for (int rank = first; rank < std::min(nodes_, first + count); ++rank) {
      proto::NodePlacement& member = *reply.add_members();
      member.set_node_rank(rank);
      member.set_connected(silent_ < 0 || rank != silent_ || look);
      if (look || rank == silent_) continue;  // the reports arrive after the question
      member.mutable_report()->set_restarts(rank);
      member.mutable_report()->set_last_cause(rank == 3 ? "rank 9 hung" : "");
    }
    return reply;
  }
  int nodes_, silent_ = -1, looks_ = 0;
};

TEST(AddMembers, AsksPageByPageAndWaitsForTheReports) {
  FakeRoster roster(2500);
  proto::JobStatus status;
  AddMembers(status, [&](int first, int count, bool look) { return roster(first, count, look); });
  ASSERT_EQ(status.members_size(), 2500);
  EXPECT_EQ(roster.looks_, 3) << "once a page";
  EXPECT_EQ(status.members(2499).report().restarts(), 2499);
  EXPECT_EQ(status.last_cause(), "rank 9 hung") << "this launcher was not there to see it";
  EXPECT_EQ(status.members_missing(), "");
}

TEST(AddMembers, ANodeThatIsGoneIsNotWaitedFor) {
  FakeRoster roster(4);
  roster.silent_ = 1;
  proto::JobStatus status;
  AddMembers(status, [&](int first, int count, bool look) { return roster(first, count, look); });
  ASSERT_EQ(status.members_size(), 4);
  EXPECT_FALSE(status.members(1).connected());
  EXPECT_FALSE(status.members(1).has_report());
}

TEST(AddMembers, ARendezvousThatIsAwayIsSaid) {
  proto::JobStatus status;
  status.set_last_cause("own");
  AddMembers(status,
             [](int, int, bool) -> absl::StatusOr<proto::RosterReply> { return absl::UnavailableError("gone"); });
  EXPECT_EQ(status.members_size(), 0);
  EXPECT_THAT(status.members_missing(), HasSubstr("gone"));
  EXPECT_THAT(DescribeStatus(status), HasSubstr("of the other nodes nothing is known: the rendezvous does not answer"));
  EXPECT_EQ(status.last_cause(), "own");
}

TEST(JobStatus, Json) {
  const nlohmann::json json = nlohmann::json::parse(StatusJson(Sample()));
  EXPECT_EQ(json["run_name"], "a \"run\" \\ of\nmine");
  EXPECT_EQ(json["goodput"], 0.875);
  EXPECT_EQ(json["ranks"][0]["loss"], 0.25);
  EXPECT_TRUE(json["ranks"][1]["loss"].is_null());
  EXPECT_TRUE(json["ranks"][1]["heartbeat_age_seconds"].is_null());
  proto::JobStatus odd;
  odd.set_goodput(std::numeric_limits<double>::infinity());
  odd.set_last_checkpoint("not \xff UTF-8");
  EXPECT_TRUE(nlohmann::json::parse(StatusJson(odd))["goodput"].is_null());
}

TEST(JobStatus, Prometheus) {
  const std::string text = PrometheusText(Sample());
  EXPECT_THAT(text, HasSubstr("# TYPE composer_restarts_total counter\n"
                              "composer_restarts_total{job=\"a \\\"run\\\" \\\\ of\\nmine\",node=\"h1\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("composer_goodput_ratio{job=\"a \\\"run\\\" \\\\ of\\nmine\",node=\"h1\"} 0.875\n"));
  EXPECT_THAT(text, HasSubstr(",rank=\"1\"} NaN\n"));
  EXPECT_EQ(text.back(), '\n');
}

TEST(JobStatus, PhasesHaveNames) {
  EXPECT_EQ(PhaseName(proto::PHASE_TRAINING), "training");
  EXPECT_EQ(PhaseName(proto::PHASE_STARTING), "starting");
  EXPECT_EQ(PhaseName(77), "");
}

// A run with its own clock, in seconds since the launch.
class TimedRun {
 public:
  void See(double second, int64_t step, bool training = true) { meter.Observe(step, training, At(second)); }
  static absl::Time At(double second) { return absl::UnixEpoch() + absl::Seconds(second); }
  GoodputMeter meter{absl::UnixEpoch()};
};

TEST(Goodput, StartIsNotUseful) {
  TimedRun run;
  EXPECT_EQ(run.meter.Goodput(TimedRun::At(0)), 0);
  run.See(5, 0, false);
  run.See(10, 0);
  for (int i = 1; i <= 10; ++i) run.See(10 + i, 10 * i);
  EXPECT_DOUBLE_EQ(run.meter.Goodput(TimedRun::At(20)), 0.5);
  EXPECT_DOUBLE_EQ(run.meter.StepsPerSecond(TimedRun::At(20)), 10);
}

TEST(Goodput, EvaluationAndWaitingAreNot) {
  TimedRun run;
  run.See(0, 0);
  run.See(10, 10);
  run.See(11, 10, false);
  run.See(20, 10);
  run.See(30, 20);
  EXPECT_DOUBLE_EQ(run.meter.Goodput(TimedRun::At(40)), 0.5);
}

TEST(Goodput, LongStepsCountWhenTheyAreDone) {
  TimedRun run;
  for (int i = 0; i < 20; ++i) run.See(i, 0);
  EXPECT_EQ(run.meter.Goodput(TimedRun::At(19)), 0);
  run.See(20, 1);
  EXPECT_DOUBLE_EQ(run.meter.Goodput(TimedRun::At(20)), 1);
}

TEST(Goodput, StepsDoneAgainAreTakenOff) {
  TimedRun run;
  run.See(0, 0);
  run.See(10, 100);
  run.meter.EndGeneration();
  run.See(20, 60);  // 40 steps of 0.1 s are lost
  EXPECT_DOUBLE_EQ(run.meter.Goodput(TimedRun::At(20)), 6.0 / 20);
  run.See(24, 100);
  run.See(30, 160);
  EXPECT_DOUBLE_EQ(run.meter.Goodput(TimedRun::At(30)), 16.0 / 30);
  run.meter.EndGeneration();
  run.meter.EndGeneration();  // one that never trained
  run.See(40, 160);
  EXPECT_DOUBLE_EQ(run.meter.Goodput(TimedRun::At(40)), 16.0 / 40);
}

TEST(Goodput, ARunThatStandsStillSlowsDown) {
  TimedRun run;
  for (int i = 0; i <= 10; ++i) run.See(i, i);
  EXPECT_DOUBLE_EQ(run.meter.StepsPerSecond(TimedRun::At(10)), 1);
  EXPECT_LT(run.meter.StepsPerSecond(TimedRun::At(100)), 0.2);
  run.meter.EndGeneration();
  EXPECT_EQ(run.meter.StepsPerSecond(TimedRun::At(101)), 0);
}

}  // namespace
}  // namespace composer
