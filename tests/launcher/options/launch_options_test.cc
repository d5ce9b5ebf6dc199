// Tests every flag of the Python composer launcher and of torchrun that has a meaning here, in each spelling, and each
// variable.
// SPDX-License-Identifier: Apache-2.0
#include "launcher/options/launch_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "absl/strings/str_join.h"
#include "launcher/launch_docs.h"
#include "launcher/options/launch_option_table.h"
#include "launcher/subcommands.h"

namespace composer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Variables = std::map<std::string, std::string>;
using Check = std::function<bool(const LaunchOptions&)>;

struct Spelling {
  std::vector<std::string> arguments;
  Check holds;
};

void ExpectAll(const std::vector<Spelling>& spellings) {
  for (const Spelling& s : spellings) {
    const auto options = ParseLaunchOptions(s.arguments, {});
    ASSERT_TRUE(options.ok()) << absl::StrJoin(s.arguments, " ") << ": " << options.status();
    EXPECT_TRUE(s.holds(*options)) << absl::StrJoin(s.arguments, " ");
  }
}

TEST(LaunchOptionsTest, FlagsOfThePythonLauncher) {
  const Check nproc = [](const LaunchOptions& o) { return o.nproc == "8"; };
  const Check command = [](const LaunchOptions& o) { return o.command; };
  const Check module = [](const LaunchOptions& o) { return o.module; };
  const Check verbose = [](const LaunchOptions& o) { return o.verbose; };
  ExpectAll({
      {{"-n", "8"}, nproc},
      {{"-n8"}, nproc},
      {{"--nproc", "8"}, nproc},
      {{"--nproc=8"}, nproc},
      {{"--stdout", "out-{rank}"}, [](const LaunchOptions& o) { return o.stdout_file == "out-{rank}"; }},
      {{"--stderr", "err-{rank}"}, [](const LaunchOptions& o) { return o.stderr_file == "err-{rank}"; }},
      {{"-v"}, verbose},
      {{"--verbose"}, verbose},
      {{"-m"}, module},
      {{"--module_mode"}, module},
      {{"-c"}, command},
      {{"--command_mode"}, command},
      {{"-vc"}, [](const LaunchOptions& o) { return o.verbose && o.command; }},
      {{"--world_size", "16"}, [](const LaunchOptions& o) { return o.world_size == 16; }},
      {{"--base_rank", "8"}, [](const LaunchOptions& o) { return o.base_rank == 8; }},
      {{"--node_rank", "1"}, [](const LaunchOptions& o) { return o.node_rank == 1; }},
      {{"--master_addr", "10.0.0.1"}, [](const LaunchOptions& o) { return o.master_addr == "10.0.0.1"; }},
      {{"--master_port", "7501"}, [](const LaunchOptions& o) { return o.master_port == 7501; }},
      {{"--version"}, [](const LaunchOptions& o) { return o.version; }},
      {{"-h"}, [](const LaunchOptions& o) { return o.help; }},
      {{"--world", "4"}, [](const LaunchOptions& o) { return o.world_size == 4; }},  // abbreviated as by argparse
      {{"-n", "2", "train.py", "-n", "9", "--x"},
       [](const LaunchOptions& o) {
         return o.nproc == "2" && o.words == std::vector<std::string>{"train.py", "-n", "9", "--x"};
       }},
  });
}

TEST(LaunchOptionsTest, FlagsOfGrowingWorlds) {
  ExpectAll({
      {{"--grow", "now"}, [](const LaunchOptions& o) { return o.grow == "now"; }},
      {{"--node_group=rack-7"}, [](const LaunchOptions& o) { return o.node_group == "rack-7"; }},
      {{}, [](const LaunchOptions& o) { return o.grow.empty() && o.node_group.empty(); }},
  });
  EXPECT_THAT(ParseLaunchOptions({"--grow", "soon"}, {}).status().message(), HasSubstr("checkpoint, now"));
  EXPECT_THAT(ParseLaunchOptions({"--node-group", "a b"}, {}).status().message(), HasSubstr("without spaces"));
  EXPECT_THAT(ParseLaunchOptions({"--node-group", std::string(257, 'x')}, {}).status().message(), HasSubstr("256"));
}

TEST(LaunchOptionsTest, FlagsOfTorchrun) {
  const Check nproc = [](const LaunchOptions& o) { return o.nproc == "gpu"; };
  const Check endpoint = [](const LaunchOptions& o) { return o.rdzv_endpoint == "a:1"; };
  const Check command = [](const LaunchOptions& o) { return o.command; };
  const Check log_dir = [](const LaunchOptions& o) { return o.log_dir == "/logs"; };
  const Check tee = [](const LaunchOptions& o) { return o.tee.given && o.tee.all == 2; };
  const Check by_rank = [](const LaunchOptions& o) {
    return o.redirects.Has(0, 1) && o.redirects.Has(0, 2) && o.redirects.Has(1, 1) && !o.redirects.Has(1, 2) &&
           !o.redirects.Has(2, 1);
  };
  ExpectAll({
      {{"--nnodes", "3"}, [](const LaunchOptions& o) { return o.min_nodes == 3 && o.max_nodes == 3; }},
      {{"--nnodes=1:4"}, [](const LaunchOptions& o) { return o.min_nodes == 1 && o.max_nodes == 4; }},
      {{"--nproc-per-node", "gpu"}, nproc},
      {{"--nproc_per_node=gpu"}, nproc},
      {{"--nproc-per-node=auto"}, [](const LaunchOptions& o) { return o.nproc == "auto"; }},
      {{"--nproc-per-node=cpu"}, [](const LaunchOptions& o) { return o.nproc == "cpu"; }},
      {{"--rdzv-backend=c10d"}, [](const LaunchOptions& o) { return o.rdzv_backend == "c10d"; }},
      {{"--rdzv-endpoint=a:1"}, endpoint},
      {{"--rdzv_endpoint", "a:1"}, endpoint},
      {{"--rdzv-id=7"}, [](const LaunchOptions& o) { return o.rdzv_id == "7"; }},
      {{"--rdzv_conf", "join_timeout=5,last_call_timeout=2,is_host=1"},
       [](const LaunchOptions& o) { return o.join_timeout == 5 && o.last_call == 2; }},
      {{"--standalone"}, [](const LaunchOptions& o) { return o.standalone; }},
      {{"--max-restarts=3"}, [](const LaunchOptions& o) { return o.max_restarts == 3; }},
      {{"--startup-limits", "attach=5,load=0"},
       [](const LaunchOptions& o) { return o.startup_limits == "attach=5,load=0"; }},
      {{"--max_restarts", "3"}, [](const LaunchOptions& o) { return o.max_restarts == 3; }},
      {{"--monitor-interval=0.5", "--start-method=fork", "--event-log-handler=null", "--signals-to-handle=SIGTERM"},
       [](const LaunchOptions&) { return true; }},
      {{"--role=trainer"}, [](const LaunchOptions& o) { return o.role == "trainer"; }},
      {{"--module"}, [](const LaunchOptions& o) { return o.module; }},
      {{"--no-python"}, command},
      {{"--no_python"}, command},
      {{"--run-path"}, [](const LaunchOptions& o) { return o.run_path; }},
      {{"--log-dir=/logs"}, log_dir},
      {{"--log_dir", "/logs"}, log_dir},
      {{"-r", "0:3,1:1"}, by_rank},
      {{"--redirects=0:3,1:1"}, by_rank},
      {{"-t", "2"}, tee},
      {{"-t2"}, tee},
      {{"--tee=2"}, tee},
      {{"--tee", "train.py"}, [](const LaunchOptions& o) { return o.tee.all == 3 && o.words.size() == 1; }},
      {{"--local-ranks-filter=0,2"}, [](const LaunchOptions& o) { return o.local_ranks_filter.size() == 2; }},
      {{"--node-rank=1"}, [](const LaunchOptions& o) { return o.node_rank == 1; }},
      {{"--master-addr=x"}, [](const LaunchOptions& o) { return o.master_addr == "x"; }},
      {{"--master-port=1"}, [](const LaunchOptions& o) { return o.master_port == 1; }},
      {{"--local-addr=10.0.0.2"}, [](const LaunchOptions& o) { return o.local_addr == "10.0.0.2"; }},
  });
}

TEST(LaunchOptionsTest, EveryVariable) {
  const std::vector<std::tuple<std::string, std::string, Check>> cases = {
      {"LOCAL_WORLD_SIZE", "8", [](const LaunchOptions& o) { return o.nproc == "8"; }},
      {"PET_NPROC_PER_NODE", "auto", [](const LaunchOptions& o) { return o.nproc == "auto"; }},
      {"WORLD_SIZE", "16", [](const LaunchOptions& o) { return o.world_size == 16; }},
      {"BASE_RANK", "8", [](const LaunchOptions& o) { return o.base_rank == 8; }},
      {"NODE_RANK", "1", [](const LaunchOptions& o) { return o.node_rank == 1; }},
      {"PET_NODE_RANK", "1", [](const LaunchOptions& o) { return o.node_rank == 1; }},
      {"MASTER_ADDR", "a", [](const LaunchOptions& o) { return o.master_addr == "a"; }},
      {"PET_MASTER_ADDR", "a", [](const LaunchOptions& o) { return o.master_addr == "a"; }},
      {"MASTER_PORT", "9", [](const LaunchOptions& o) { return o.master_port == 9; }},
      {"PET_MASTER_PORT", "9", [](const LaunchOptions& o) { return o.master_port == 9; }},
      {"PET_NNODES", "1:3", [](const LaunchOptions& o) { return o.max_nodes == 3; }},
      {"PET_RDZV_ENDPOINT", "a:1", [](const LaunchOptions& o) { return o.rdzv_endpoint == "a:1"; }},
      {"PET_RDZV_ID", "j", [](const LaunchOptions& o) { return o.rdzv_id == "j"; }},
      {"PET_RDZV_BACKEND", "c10d", [](const LaunchOptions& o) { return o.rdzv_backend == "c10d"; }},
      {"PET_RDZV_CONF", "join_timeout=7", [](const LaunchOptions& o) { return o.join_timeout == 7; }},
      {"PET_STANDALONE", "1", [](const LaunchOptions& o) { return o.standalone; }},
      {"PET_MAX_RESTARTS", "2", [](const LaunchOptions& o) { return o.max_restarts == 2; }},
      {"PET_MONITOR_INTERVAL", "2", [](const LaunchOptions&) { return true; }},
      {"PET_START_METHOD", "fork", [](const LaunchOptions&) { return true; }},
      {"PET_EVENT_LOG_HANDLER", "null", [](const LaunchOptions&) { return true; }},
      {"PET_SIGNALS_TO_HANDLE", "SIGTERM", [](const LaunchOptions&) { return true; }},
      {"PET_ROLE", "r", [](const LaunchOptions& o) { return o.role == "r"; }},
      {"PET_MODULE", "1", [](const LaunchOptions& o) { return o.module; }},
      {"PET_MODULE", "0", [](const LaunchOptions& o) { return !o.module; }},
      {"PET_NO_PYTHON", "1", [](const LaunchOptions& o) { return o.command; }},
      {"PET_RUN_PATH", "1", [](const LaunchOptions& o) { return o.run_path; }},
      {"PET_LOG_DIR", "/l", [](const LaunchOptions& o) { return o.log_dir == "/l"; }},
      {"PET_REDIRECTS", "3", [](const LaunchOptions& o) { return o.redirects.all == 3; }},
      {"PET_TEE", "1", [](const LaunchOptions& o) { return o.tee.all == 1; }},
      {"PET_LOCAL_RANKS_FILTER", "1", [](const LaunchOptions& o) { return o.local_ranks_filter.size() == 1; }},
      {"PET_LOCAL_ADDR", "b", [](const LaunchOptions& o) { return o.local_addr == "b"; }},
      {"COMPOSER_PREEMPTION", "none", [](const LaunchOptions& o) { return o.preemption == "none"; }},
      {"COMPOSER_REQUEUE", "false", [](const LaunchOptions& o) { return !o.requeue; }},
      {"COMPOSER_GROW", "never", [](const LaunchOptions& o) { return o.grow == "never"; }},
      {"COMPOSER_NODE_GROUP", "rack", [](const LaunchOptions& o) { return o.node_group == "rack"; }},
      {"COMPOSER_TOKEN_FILE", "/t", [](const LaunchOptions& o) { return o.security.token_file == "/t"; }},
      {"COMPOSER_TLS_CERT", "/c", [](const LaunchOptions& o) { return o.security.tls.certificate == "/c"; }},
      {"COMPOSER_TLS_KEY", "/k", [](const LaunchOptions& o) { return o.security.tls.key == "/k"; }},
      {"COMPOSER_TLS_CA", "/a", [](const LaunchOptions& o) { return o.security.tls.authority == "/a"; }},
      {"COMPOSER_TLS_SERVER_NAME", "n", [](const LaunchOptions& o) { return o.security.tls.server_name == "n"; }},
      {"COMPOSER_STARTUP_LIMITS", "attach=5", [](const LaunchOptions& o) { return o.startup_limits == "attach=5"; }},
      {"COMPOSER_INSECURE", "1", [](const LaunchOptions& o) { return o.security.insecure; }},
      {"COMPOSER_HTTP_PORT", "0", [](const LaunchOptions& o) { return o.control_plane.http_port == 0; }},
      {"COMPOSER_HTTP_ADDRESS", "::1", [](const LaunchOptions& o) { return o.control_plane.http_address == "::1"; }},
      {"COMPOSER_CONTROL_PORT", "9", [](const LaunchOptions& o) { return o.control_plane.control_port == 9; }},
      {"COMPOSER_CONTROL_ADDRESS", "h", [](const LaunchOptions& o) { return o.control_plane.control_address == "h"; }},
  };
  std::set<std::string> tested;
  for (const auto& [name, value, holds] : cases) {
    const auto options = ParseLaunchOptions({}, Environment(Variables{{name, value}}));
    ASSERT_TRUE(options.ok()) << name << ": " << options.status();
    EXPECT_TRUE(holds(*options)) << name;
    tested.insert(name);
  }
  LaunchOptions unused;
  for (const Option& option : Flatten(LaunchOptionTable(unused))) {
    for (const std::string& name : option.environment) EXPECT_TRUE(tested.contains(name)) << name << " has no test";
  }
}

TEST(LaunchOptionsTest, FlagsWinOverVariablesAndPetOverTheOthers) {
  const Environment environment(Variables{{"LOCAL_WORLD_SIZE", "2"}, {"PET_NPROC_PER_NODE", "3"}});
  EXPECT_EQ(ParseLaunchOptions({}, environment)->nproc, "3");
  const auto options = ParseLaunchOptions({"-n", "4"}, environment);
  EXPECT_EQ(options->nproc, "4");
  EXPECT_EQ(options->Given("nproc")->origin, "flag -n");
  EXPECT_EQ(options->Given("max-restarts"), nullptr);
}

TEST(LaunchOptionsTest, Errors) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"--nprc", "2"}, "unknown flag --nprc (did you mean `--nproc`?)"},
      {{"-n", "many"}, "-n (--nproc): `many` must be a whole number from 1 to 1024, or auto, cpu, gpu"},
      {{"-n", "1025"}, "`1025` must be a whole number from 1 to 1024"},
      {{"--world_size", "0"}, "--world_size: `0` must be a whole number from 1 to"},
      {{"--node_rank", "-1"}, "--node_rank: `-1` must be a whole number from 0"},
      {{"--nnodes", "2:1"}, "--nnodes: `2:1` must be N or MIN:MAX with 1 <= MIN <= MAX"},
      {{"--nnodes", "0"}, "must be N or MIN:MAX"},
      {{"--nnodes", "1:2:3"}, "must be N or MIN:MAX"},
      {{"--master_port", "65536"}, "must be a whole number from 0 to 65535"},
      {{"--rdzv-backend", "etcd"}, "--rdzv-backend: `etcd` must be one of static, c10d"},
      {{"--rdzv-conf", "join_timout=3"}, "`join_timout` is not known (did you mean `join_timeout`?)"},
      {{"--startup-limits", "atach=5"}, "`atach` is not a phase of the start-up (did you mean `attach`?)"},
      {{"--startup-limits", "attach"}, "must be phase=seconds"},
      {{"--rdzv-conf", "join_timeout"}, "must be key=value"},
      {{"--rdzv-conf", "join_timeout=soon"}, "join_timeout is `soon`, it must be a number of seconds"},
      {{"-r", "4"}, "must be 0 (none), 1 (stdout), 2 (stderr) or 3 (both)"},
      {{"-r", "0:3,2"}, "or these by local rank: 0:3,1:1"},
      {{"--local-ranks-filter", "a"}, "must be local ranks with commas"},
      {{"--join-timeout", "-1"}, "must be seconds from 0"},
  };
  for (const auto& [arguments, message] : cases) {
    const auto options = ParseLaunchOptions(arguments, {});
    ASSERT_EQ(options.status().code(), absl::StatusCode::kInvalidArgument) << message;
    EXPECT_THAT(std::string(options.status().message()), HasSubstr(message));
  }
}

TEST(LaunchDocsTest, HelpNamesEveryFlagAndSubcommand) {
  const std::string help = LaunchHelp(), man = LaunchCompletion("man"), bash = LaunchCompletion("bash");
  LaunchOptions unused;
  for (const Option& option : Flatten(LaunchOptionTable(unused))) {
    if (option.hidden) continue;
    EXPECT_THAT(help, HasSubstr("--" + option.name));
    EXPECT_THAT(bash, HasSubstr("--" + option.name));
    EXPECT_FALSE(option.help.empty()) << option.name;
  }
  for (const std::string& name : SubcommandNames()) {
    EXPECT_THAT(help, HasSubstr("\n  " + name + " ")) << name;
    EXPECT_THAT(man, HasSubstr("composer " + name));
  }
}

}  // namespace
}  // namespace composer
