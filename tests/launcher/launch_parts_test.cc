// Tests the small decisions of a launch: endpoints, output, argument expansion, addresses, the meaning of an
// unreachable master.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "launcher/options/data_fingerprint.h"
#include "launcher/options/launch_plan.h"
#include "launcher/rendezvous/node_address.h"
#include "launcher/rendezvous/reachability.h"
#include "launcher/workers/argument_expansion.h"
#include "launcher/workers/output_plan.h"
#include "net/endpoint.h"
#include "net/network_facts.h"
#include "tests/support/temp_dir.h"

namespace composer {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using Show = RankLogs::Show;
using Variables = std::map<std::string, std::string>;

TEST(EndpointTest, Forms) {
  const std::vector<std::pair<std::string, std::vector<Endpoint>>> cases = {
      {"a", {{"a", 7}}},
      {"a:1", {{"a", 1}}},
      {"10.0.0.1:65535", {{"10.0.0.1", 65535}}},
      {"::1", {{"::1", 7}}},
      {"[::1]", {{"::1", 7}}},
      {"[fe80::1%eth0]:9", {{"fe80::1%eth0", 9}}},
      {"a, b:2,c", {{"a", 7}, {"b", 2}, {"c", 7}}},
  };
  for (const auto& [text, expected] : cases) {
    const auto endpoints = ParseEndpoints(text, 7);
    ASSERT_TRUE(endpoints.ok()) << text << ": " << endpoints.status();
    EXPECT_EQ(*endpoints, expected) << text;
  }
  EXPECT_EQ((Endpoint{"::1", 3}).ToString(), "[::1]:3");
  for (const char* text : {"", "a,", "a:", "a:x", "a:65536", "a:-1", "a:+1", "[::1", "[::1]x", "a b", "-a", "http://a",
                           "a/b", "a\nb", "a:99999999999999999999"}) {
    EXPECT_EQ(ParseEndpoints(text, 7).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
  EXPECT_FALSE(ParseEndpoints(std::string(254, 'a'), 7).ok());
  std::string many = "a";
  for (int i = 0; i < 64; ++i) many += ",a";
  EXPECT_FALSE(ParseEndpoints(many, 7).ok());
}

TEST(FormatFileNameTest, AsPythonsFormat) {
  const WorkerPlace place = {.rank = 9,
                             .local_rank = 1,
                             .world_size = 16,
                             .local_world_size = 8,
                             .node_rank = 3,
                             .restart_count = 2,
                             .job = "job",
                             .run_name = "run"};
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"plain", "plain"},
      {"{rank}-{local_rank}-{world_size}-{local_world_size}-{node_rank}", "9-1-16-8-3"},
      {"{rank:05d}/{rank:3}|{restart_count:d}", "00009/  9|2"},
      {"{{rank}} {run_name}", "{rank} run"},
  };
  for (const auto& [text, expected] : cases) EXPECT_EQ(FormatFileName(text, place).value_or("error"), expected) << text;
  const std::vector<std::pair<std::string, std::string>> errors = {
      {"{rnk}", "{rnk} is not known (did you mean `rank`?)"},
      {"{rank", "a { without }"},
      {"rank}", "a } without {"},
      {"{rank:x}", "after the colon comes a width such as 05d"},
      {"{rank:9999999999}", "after the colon comes a width"},
      {"{}", "{} is not known"},
  };
  for (const auto& [text, message] : errors) {
    EXPECT_THAT(std::string(FormatFileName(text, place).status().message()), HasSubstr(message)) << text;
  }
}

TEST(OutputPlanTest, WhoIsShownAndWhereFilesAre) {
  const auto plan = [](std::vector<std::string> flags, int rank, bool keeps_logs = false) {
    const auto options = ParseLaunchOptions(flags, {});
    const auto output = MakeOutputOptions(*options, "job", keeps_logs, {});
    const RankOutput result = PlanOutput(*output, {.rank = rank, .local_rank = rank % 2, .restart_count = 1});
    const auto text = [](const StreamOutput& s) {
      const char* show = s.show == Show::kRaw ? "raw" : s.show == Show::kPrefixed ? "prefixed" : "hidden";
      return s.path.empty() ? std::string(show) : absl::StrCat(show, " ", s.path);
    };
    return absl::StrCat(text(result.out), ", ", text(result.err));
  };
  EXPECT_EQ(plan({}, 0), "raw, raw");
  EXPECT_EQ(plan({}, 1), "prefixed, prefixed");
  EXPECT_EQ(plan({}, 1, true), "hidden, hidden");
  EXPECT_EQ(plan({}, 2, true), "hidden, hidden");  // local rank 0 of another node
  EXPECT_EQ(plan({"--tee"}, 0), "prefixed, prefixed");
  EXPECT_EQ(plan({"-t", "1"}, 1, true), "prefixed, hidden");
  EXPECT_EQ(plan({"-t", "0:2", "--log-dir=/l"}, 0), "raw, prefixed /l/job/attempt_1/0/stderr.log");
  EXPECT_EQ(plan({"-t", "0:2", "--log-dir=/l"}, 1), "prefixed, prefixed");
  EXPECT_EQ(plan({"-r", "3", "--log-dir=/l"}, 0),
            "hidden /l/job/attempt_1/0/stdout.log, hidden /l/job/attempt_1/0/stderr.log");
  EXPECT_EQ(plan({"-r", "1:1", "--log-dir=/l"}, 1), "hidden /l/job/attempt_1/1/stdout.log, prefixed");
  EXPECT_THAT(plan({"-r", "1"}, 0), AllOf(HasSubstr("hidden /"), HasSubstr("/logs/job/attempt_1/0/stdout.log, raw")));
  EXPECT_EQ(plan({"--log-dir=/l"}, 1),
            "prefixed /l/job/attempt_1/1/stdout.log, prefixed /l/job/attempt_1/1/stderr.log");
  EXPECT_EQ(plan({"--stdout", "o{rank}", "--stderr", "e{rank}"}, 0), "raw, raw");
  EXPECT_EQ(plan({"--stdout", "o{rank}", "--stderr", "e{rank}"}, 3), "hidden o3, hidden e3");
  EXPECT_EQ(plan({"--stdout", "o{rank}"}, 1), "hidden o1, prefixed");
  EXPECT_EQ(plan({"--local-ranks-filter", "1"}, 0), "hidden, hidden");
  EXPECT_EQ(plan({"--local-ranks-filter", "1"}, 1), "prefixed, prefixed");
}

TEST(OutputPlanTest, TheMosaicPlatformsFiles) {
  const Environment platform(Variables{
      {"MOSAICML_PLATFORM", "True"}, {"MOSAICML_LOG_DIR", "/logs"}, {"MOSAICML_GPU_LOG_FILE_PREFIX", "gpu_"}});
  const auto output = MakeOutputOptions(*ParseLaunchOptions({"--stdout=x"}, {}), "job", false, platform);
  const RankOutput second = PlanOutput(*output, {.rank = 9, .local_rank = 1});
  EXPECT_EQ(second.out.path, "/logs/gpu_1.txt");
  EXPECT_EQ(second.err.path, "/logs/gpu_1.txt");
  EXPECT_THAT(PlanOutput(*output, {.rank = 8, .local_rank = 0}).out.path, IsEmpty());
  const auto refused = MakeOutputOptions(*ParseLaunchOptions({"--stdout={rnk}"}, {}), "job", false, {});
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("--stdout: `{rnk}`: {rnk} is not known"));
}

TEST(ExpandArgumentTest, AsThePythonLauncher) {
  const Environment environment(Variables{{"RANK", "3"}, {"HOME", "/home/me"}, {"A_1", "x"}, {"EMPTY", ""}});
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", ""},
      {"plain", "plain"},
      {"$RANK", "3"},
      {"a${RANK}b$A_1", "a3bx"},
      {"$EMPTY.", "."},
      {"$NOT_SET ${NOT_SET} $", "$NOT_SET ${NOT_SET} $"},
      {"${RANK", "${RANK"},
      {"$RANK$RANK", "33"},
      {"~", "/home/me"},
      {"~/x/$RANK", "/home/me/x/3"},
      {"~user/x", "~user/x"},
      {"a~", "a~"},
      {"^[a-z]+$", "^[a-z]+$"},
  };
  for (const auto& [text, expected] : cases) EXPECT_EQ(ExpandArgument(text, environment), expected) << text;
}

TEST(NodeAddressTest, ThatOthersReach) {
  const std::vector<NetworkInterface> interfaces = {
      {"lo", "127.0.0.1", true}, {"eth0", "10.0.0.5", false}, {"ib0", "192.168.1.5", false}};
  struct Case {
    AddressFacts facts;
    std::string address;
    std::string interface;
    bool here;
  };
  const std::vector<Case> cases = {
      {{"", "node0", {"192.168.1.1"}, "192.168.1.5", "10.0.0.5"}, "192.168.1.5", "ib0", false},
      {{"", "10.0.0.5", {"10.0.0.5"}, "10.0.0.5", "10.0.0.5"}, "10.0.0.5", "eth0", true},
      {{"", "localhost", {"127.0.0.1"}, "127.0.0.1", "10.0.0.5"}, "127.0.0.1", "lo", true},
      {{"", "me", {"127.0.1.1"}, "127.0.0.1", "10.0.0.5"}, "10.0.0.5", "eth0", true},  // Debian's /etc/hosts
      {{"", "me", {"127.0.1.1"}, "127.0.0.1", ""}, "10.0.0.5", "eth0", true},
      {{"", "later", {}, "", "10.0.0.5"}, "10.0.0.5", "eth0", false},  // not in the name service yet
      {{"192.168.1.5", "node0", {"10.0.0.1"}, "10.0.0.5", "10.0.0.5"}, "192.168.1.5", "ib0", false},
  };
  for (Case c : cases) {
    c.facts.interfaces = interfaces;
    const NodeAddress chosen = ChooseNodeAddress(c.facts);
    EXPECT_EQ(chosen.address, c.address) << c.facts.endpoint_host;
    EXPECT_EQ(chosen.interface, c.interface) << c.facts.endpoint_host;
    EXPECT_EQ(IsThisMachine(c.facts), c.here) << c.facts.endpoint_host;
  }
  EXPECT_EQ(ChooseNodeAddress({.endpoint_host = "x"}).address, "127.0.0.1");
}

TEST(NetworkFactsTest, OfThisMachine) {
  EXPECT_THAT(*ResolveHost("127.0.0.1"), testing::ElementsAre("127.0.0.1"));
  EXPECT_EQ(SourceAddress("127.0.0.1"), "127.0.0.1");
  EXPECT_EQ(ResolveHost("no-such-host.invalid").status().code(), absl::StatusCode::kNotFound);
  const auto interfaces = ListInterfaces();
  EXPECT_TRUE(std::any_of(interfaces.begin(), interfaces.end(),
                          [](const NetworkInterface& i) { return i.address == "127.0.0.1" && i.loopback; }));
}

TEST(ReachabilityTest, NamesAddressPortInterfaceAndWhatWasTried) {
  struct Case {
    Reachability reachability;
    std::vector<std::string> words;
  };
  const std::vector<Case> cases = {
      {{{"node0", 7501}, "", {{"10.0.0.1", "10.0.0.2", "eth0", ECONNREFUSED}}},
       {"node0:7501, tried for 1m: connection refused at 10.0.0.1:7501 (from 10.0.0.2 on eth0)",
        "is the launcher of node 0 running there"}},
      {{{"node0", 7501}, "", {{"10.0.0.1", "10.0.0.2", "eth0", ETIMEDOUT}}},
       {"no answer at 10.0.0.1:7501", "firewall"}},
      {{{"node0", 1}, "", {{"10.0.0.1", "", "", ENETUNREACH}}}, {"Network is unreachable", "(no route)", "ip route"}},
      {{{"node0", 1}, "the name node0 has no address: unknown", {}},
       {"the name node0 has no address", "--master_addr"}},
      {{{"node0", 1}, "", {{"10.0.0.1", "10.0.0.2", "eth0", 0}}},
       {"connected, but nobody there answers as a rendezvous", "choose another --master_port"}},
      {{{"n", 1}, "", {{"::1", "::1", "lo", ECONNREFUSED}, {"127.0.0.1", "127.0.0.1", "lo", ECONNREFUSED}}},
       {"at [::1]:1 (from ::1 on lo); connection refused at 127.0.0.1:1"}},
  };
  for (const Case& c : cases) {
    const std::string text = ExplainUnreachable(c.reachability, absl::Minutes(1));
    for (const std::string& word : c.words) EXPECT_THAT(text, HasSubstr(word));
  }
}

TEST(DataFingerprintTest, SaysWhatIsThere) {
  TempDir dir;
  ASSERT_TRUE(MakeDirs(dir.Path("data/sub")).ok());
  ASSERT_TRUE(AtomicWriteFile(dir.Path("data/a"), "123").ok());
  ASSERT_TRUE(AtomicWriteFile(dir.Path("data/sub/b"), "45").ok());
  EXPECT_EQ(FingerprintData(dir.Path("data")), "folder of 2 files, 5 bytes");
  EXPECT_EQ(FingerprintData(dir.Path("data/a")), "file of 3 bytes");
  EXPECT_EQ(FingerprintData(dir.Path("none")), "missing");
  EXPECT_EQ(FingerprintData("s3://bucket/x"), "remote");
  EXPECT_EQ(FingerprintData("/dev/null"), "no file");
}

}  // namespace
}  // namespace composer
