// Tests what a launch decides before any process exists: CPU shares, GPUs, environment, program kind, run lock.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "launcher/options/launch_plan.h"
#include "launcher/options/program.h"
#include "launcher/subcommands.h"
#include "launcher/supervise/run_lock.h"
#include "launcher/workers/node_resources.h"
#include "launcher/workers/placement.h"
#include "launcher/workers/worker_environment.h"
#include "tests/support/temp_dir.h"

namespace composer {
namespace {

using Variables = std::map<std::string, std::string>;

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

TEST(CpuShareTest, EqualContiguousShares) {
  const std::vector<int> cpus = {0, 2, 4, 6, 8};
  EXPECT_THAT(CpuShare(cpus, 1, 0), IsEmpty());
  EXPECT_THAT(CpuShare(cpus, 2, 0), ElementsAre(0, 2, 4));
  EXPECT_THAT(CpuShare(cpus, 2, 1), ElementsAre(6, 8));
  EXPECT_THAT(CpuShare(cpus, 5, 4), ElementsAre(8));
  EXPECT_THAT(CpuShare(cpus, 6, 0), IsEmpty());
}

TEST(VisibleGpusTest, CountsDevicesOrTheVariable) {
  TempDir dir;
  EXPECT_EQ(VisibleGpus({}, dir.path()), 0);
  for (const char* name : {"nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm", "nvidia", "tty0"}) {
    ASSERT_TRUE(AtomicWriteFile(dir.Path(name), "").ok());
  }
  EXPECT_EQ(VisibleGpus({}, dir.path()), 2);
  const std::vector<std::pair<std::string, int>> values = {
      {"0,1,2", 3}, {"", 0}, {"-1", 0}, {"0,-1,2", 1}, {"GPU-8932f937", 1}};
  for (const auto& [value, count] : values) {
    EXPECT_EQ(VisibleGpus(Environment(Variables{{"CUDA_VISIBLE_DEVICES", value}}), dir.path()), count) << value;
  }
}

TEST(FreePortTest, IsAPort) {
  const auto port = FreePort();
  ASSERT_TRUE(port.ok());
  EXPECT_GT(*port, 1023);
}

constexpr char kKeepMemory[] =
    "glibc.malloc.mmap_max=0:glibc.malloc.top_pad=67108864:glibc.malloc.trim_threshold=4294967296:"
    "glibc.malloc.hugetlb=1";

TEST(WorkerEnvironmentTest, IsTheUnionOfBothLaunchers) {
  const Environment inherited(Variables{{"HOME", "/root"}, {"RANK", "stale"}, {"NCCL_SOCKET_IFNAME", "mine"}});
  const Environment result = WorkerEnvironment(inherited, {.rank = 5,
                                                           .local_rank = 1,
                                                           .world_size = 8,
                                                           .local_world_size = 4,
                                                           .node_rank = 1,
                                                           .nodes = 2,
                                                           .master_address = "10.0.0.1",
                                                           .node_address = "10.0.0.2",
                                                           .master_port = 4000,
                                                           .restart_count = 2,
                                                           .max_restarts = 3,
                                                           .interface = "eth0",
                                                           .cpus = 10,
                                                           .job = "run",
                                                           .run_name = "run",
                                                           .generation = 7,
                                                           .launch = 4,
                                                           .hub = "unix:/tmp/hub",
                                                           .progress_page = "/tmp/page",
                                                           .terminal_columns = 99,
                                                           .terminal = "/dev/pts/3"});
  const std::map<std::string, std::string> expected = {{"HOME", "/root"},
                                                       {"RANK", "5"},
                                                       {"LOCAL_RANK", "1"},
                                                       {"WORLD_SIZE", "8"},
                                                       {"LOCAL_WORLD_SIZE", "4"},
                                                       {"NODE_RANK", "1"},
                                                       {"GROUP_RANK", "1"},
                                                       {"GROUP_WORLD_SIZE", "2"},
                                                       {"ROLE_RANK", "5"},
                                                       {"ROLE_WORLD_SIZE", "8"},
                                                       {"ROLE_NAME", "default"},
                                                       {"TORCHELASTIC_USE_AGENT_STORE", "False"},
                                                       {"TORCHELASTIC_ERROR_FILE", "/tmp/page.error"},
                                                       {"GLOO_SOCKET_IFNAME", "eth0"},
                                                       {"NCCL_SOCKET_IFNAME", "mine"},
                                                       {"MASTER_ADDR", "10.0.0.1"},
                                                       {"MASTER_PORT", "4000"},
                                                       {"TORCHELASTIC_RESTART_COUNT", "2"},
                                                       {"TORCHELASTIC_MAX_RESTARTS", "3"},
                                                       {"TORCHELASTIC_RUN_ID", "run"},
                                                       {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "1"},
                                                       {"OMP_NUM_THREADS", "2"},
                                                       {"PYTHONUNBUFFERED", "1"},
                                                       {"GLIBC_TUNABLES", kKeepMemory},
                                                       {"COMPOSER_JOB", "run"},
                                                       {"COMPOSER_NODE_ADDRESS", "10.0.0.2"},
                                                       {"COMPOSER_TERMINAL", "/dev/pts/3"},
                                                       {"COMPOSER_TERMINAL_COLUMNS", "99"},
                                                       {"COMPOSER_RUN_NAME", "run"},
                                                       {"COMPOSER_GENERATION", "7"},
                                                       {"COMPOSER_LAUNCH", "4"},
                                                       {"COMPOSER_HUB", "unix:/tmp/hub"},
                                                       {"COMPOSER_PROGRESS_PAGE", "/tmp/page"}};
  EXPECT_EQ(result.variables(), expected);
}

TEST(WorkerEnvironmentTest, MallocIsTheUsersBusinessInTheirProgramsAndIfTheySaySo) {
  EXPECT_FALSE(WorkerEnvironment({}, {.launch = 0}).Get("GLIBC_TUNABLES").has_value());
  EXPECT_EQ(WorkerEnvironment({}, {.launch = 1}).GetOr("GLIBC_TUNABLES", ""), kKeepMemory);
  const Environment off(Variables{{"GLIBC_TUNABLES", ""}});
  EXPECT_EQ(WorkerEnvironment(off, {.launch = 1}).GetOr("GLIBC_TUNABLES", "?"), "");
}

TEST(WorkerEnvironmentTest, TheProfilerDoesNotMissGpusWhereThereAreNone) {
  const auto level = [](const Environment& inherited, int64_t launch, bool without_gpus) {
    return WorkerEnvironment(inherited, {.without_gpus = without_gpus, .launch = launch})
        .GetOr("KINETO_LOG_LEVEL", "-");
  };
  EXPECT_EQ(level({}, 1, true), "5");
  EXPECT_EQ(level({}, 1, false), "-") << "what it says about GPUs is wanted";
  EXPECT_EQ(level({}, 0, true), "-") << "a program of the user's";
  EXPECT_EQ(level(Environment(Variables{{"KINETO_LOG_LEVEL", "0"}}), 1, true), "0");
}

TEST(WorkerEnvironmentTest, KeepsTheUsersThreads) {
  const Environment inherited(Variables{{"OMP_NUM_THREADS", "9"}});
  EXPECT_EQ(WorkerEnvironment(inherited, {.cpus = 4}).GetOr("OMP_NUM_THREADS", ""), "9");
  EXPECT_FALSE(WorkerEnvironment(Environment(Variables{{"COMPOSER_TERMINAL_COLUMNS", "80"}}), {})
                   .Get("COMPOSER_TERMINAL_COLUMNS")
                   .has_value());
  EXPECT_EQ(WorkerEnvironment({}, {.local_world_size = 8, .cpus = 4}).GetOr("OMP_NUM_THREADS", ""), "1");
}

TEST(PlacementTest, ASecondNode) {
  proto::World world;
  world.set_generation(4);
  world.set_world_size(5);
  world.set_nodes(2);
  world.set_node_rank(1);
  world.set_base_rank(2);
  world.set_slots(3);
  world.set_master_address("host-a");
  world.set_node_address("host-b");
  const auto place = PlaceOf(world, {.max_restarts = 7, .job = "j"});
  ASSERT_TRUE(place.ok()) << place.status();
  EXPECT_EQ(place->rank, 2);
  EXPECT_EQ(place->local_world_size, 3);
  EXPECT_EQ(place->world_size, 5);
  EXPECT_EQ(place->node_rank, 1);
  EXPECT_EQ(place->nodes, 2);
  EXPECT_EQ(place->master_address, "host-a");
  EXPECT_EQ(place->node_address, "host-b");
  EXPECT_EQ(place->generation, 4u);
  EXPECT_EQ(place->max_restarts, 7);
  EXPECT_EQ(place->job, "j");
  world.set_node_rank(2);
  EXPECT_EQ(PlaceOf(world, {}).status().code(), absl::StatusCode::kInternal);
}

class ProgramTest : public testing::Test {
 protected:
  void SetUp() override {
    AddFile("job.yaml", 0644);
    AddFile("train.py", 0644);
    AddFile("tool", 0755);
    AddFile("python3", 0755);
    AddFile("plain", 0644);
    AddFile("mine.so", 0755);
  }
  void AddFile(const std::string& name, int mode) {
    ASSERT_TRUE(AtomicWriteFile(dir_.Path(name), "").ok());
    ASSERT_EQ(chmod(dir_.Path(name).c_str(), static_cast<mode_t>(mode)), 0);
  }
  absl::StatusOr<Program> Find(std::vector<std::string> words, bool command = false, bool module = false,
                               bool script = false) {
    return FindProgram({.words = std::move(words),
                        .command = command,
                        .module = module,
                        .worker_path = "/bin/composer_worker",
                        .script = script,
                        .subcommands = {"serve", "checkpoint", "validate"},
                        .advise = AdviceFor},
                       Environment(Variables{{"PATH", "/nowhere:" + dir_.path()}}));
  }

  TempDir dir_;
};

TEST_F(ProgramTest, Kinds) {
  const std::string yaml = dir_.Path("job.yaml"), py = dir_.Path("train.py"), tool = dir_.Path("tool"),
                    python = dir_.Path("python3");
  auto job = Find({yaml, "a=1", "b.c=x y"});
  ASSERT_TRUE(job.ok()) << job.status();
  EXPECT_EQ(job->kind, Program::Kind::kJob);
  EXPECT_THAT(job->argv, ElementsAre("/bin/composer_worker", yaml, "a=1", "b.c=x y"));
  EXPECT_THAT(job->overrides, ElementsAre("a=1", "b.c=x y"));
  EXPECT_THAT(Find({py, "-n"})->argv, ElementsAre(python, py, "-n"));
  EXPECT_THAT(Find({"pkg.mod", "x"}, false, true)->argv, ElementsAre(python, "-m", "pkg.mod", "x"));
  EXPECT_EQ(Find({"pkg.mod", "x"}, false, true)->first_argument, 3u);
  EXPECT_EQ(Find({py, "-n"})->first_argument, 2u);
  EXPECT_EQ(Find({"tool", "x"}, true)->first_argument, 1u);
  EXPECT_THAT(Find({dir_.Path("plain"), "x"}, false, false, true)->argv, ElementsAre(python, dir_.Path("plain"), "x"));
  EXPECT_THAT(Find({yaml, "~a", "+b=1"})->overrides, ElementsAre("~a", "+b=1"));
  const auto plugin = Find({dir_.Path("mine.so"), yaml, "a=1"});
  ASSERT_TRUE(plugin.ok()) << plugin.status();
  EXPECT_EQ(plugin->kind, Program::Kind::kJob);
  EXPECT_EQ(plugin->yaml, yaml);
  EXPECT_THAT(plugin->overrides, ElementsAre("a=1", "plugins=[\"" + dir_.Path("mine.so") + "\"]"));
  EXPECT_THAT(Find({"tool", "x"}, true)->argv, ElementsAre(tool, "x"));
  EXPECT_THAT(Find({tool})->argv, ElementsAre(tool));
  EXPECT_EQ(Find({"serve"})->kind, Program::Kind::kSubcommand);
  EXPECT_THAT(Find({"checkpoint", "show", "x"})->argv, ElementsAre("checkpoint", "show", "x"));
}

TEST_F(ProgramTest, Errors) {
  struct Case {
    std::vector<std::string> words;
    std::string message;
  };
  const std::vector<Case> cases = {
      {{dir_.Path("no.yaml")}, "no such file: " + dir_.Path("no.yaml")},
      {{dir_.Path("job.yaml"), "--nproc", "2"}, "not `--nproc` (flags come before the YAML file)"},
      {{dir_.Path("job.yaml"), "lr"}, "come settings key=value, not `lr`"},
      {{dir_.Path("no.py")}, "no such file"},
      {{dir_.Path("plain")}, "is not executable"},
      {{"validat"}, "did you mean `validate`?"},
      {{"tool", "x"}, "to run the program on each rank: composer -c tool"},  // found in PATH
      {{"train"}, "`train` is not a subcommand, a .yaml or a .py file (a job needs no subcommand: composer job.yaml)"},
      {{"train", "mine.yaml"}, "composer mine.yaml)"},
      {{"zzz"}, "composer --help lists the commands"},
      {{dir_.Path("zzz")}, "no such program"},
      {{dir_.Path("mine.so")}, "is a plugin: the YAML file of a job that uses it must follow"},
  };
  for (const Case& c : cases) {
    const auto program = Find(c.words);
    ASSERT_EQ(program.status().code(), absl::StatusCode::kInvalidArgument) << c.message;
    EXPECT_THAT(std::string(program.status().message()), HasSubstr(c.message));
  }
}

// Whatever the user mistypes, the advice ends no job.
TEST(AdviceTest, NeverChangesAJob) {
  for (const char* word :
       {"stpo", "sto", "stopp", "Stop", "drian", "drai", "drain-", "kill", "sav", "save_", "step", "train"}) {
    EXPECT_THAT(AdviceFor(word, ""), AllOf(Not(HasSubstr("stop")), Not(HasSubstr("drain")), Not(HasSubstr("save"))))
        << word;
  }
  EXPECT_THAT(AdviceFor("stauts", ""), HasSubstr("did you mean `status`?"));
  EXPECT_THAT(AdviceFor("ls", ""), HasSubstr("composer runs"));
  EXPECT_THAT(AdviceFor("resume", "a.yaml"), HasSubstr("composer a.yaml"));
  EXPECT_THAT(AdviceFor("trian", "a.yaml"), HasSubstr("a job needs no subcommand: composer a.yaml"));
}

TEST(LaunchPlanTest, FlagsWinOverTheYamlFile) {
  TempDir dir;
  ASSERT_TRUE(AtomicWriteFile(dir.Path("job.yaml"),
                              absl::StrCat("run_name: x\nrun_folder: ", dir.path(),
                                           "/out\nnproc: 3\nmax_restarts: 5\nmodel: {name: mlp}\nmax_duration: 1ep\n"
                                           "train_dataloader: {name: gaussian_classification}\n"))
                  .ok());
  const Program program = {.kind = Program::Kind::kJob,
                           .argv = {"/bin/sh", dir.Path("job.yaml"), "global_train_batch_size=1"},
                           .yaml = dir.Path("job.yaml"),
                           .overrides = {"global_train_batch_size=1"}};
  auto plan = MakeLaunchPlan({}, program, {});
  ASSERT_TRUE(plan.ok()) << plan.status();
  EXPECT_EQ(plan->shape.slots, 3);
  EXPECT_EQ(plan->max_restarts, 5);
  EXPECT_EQ(plan->run_name, "x");
  EXPECT_THAT(plan->argv, ElementsAre("/bin/sh", "--run_folder=" + dir.Path("out"), dir.Path("job.yaml"),
                                      "global_train_batch_size=1"));
  LaunchOptions flags;
  flags.nproc = "2";
  flags.max_restarts = 0;
  plan = MakeLaunchPlan(flags, program, {});
  ASSERT_TRUE(plan.ok());
  EXPECT_EQ(plan->shape.slots, 2);
  EXPECT_EQ(plan->max_restarts, 0);
  Program without_worker = program;
  without_worker.argv[0] = "/no/composer_worker";
  EXPECT_THAT(std::string(MakeLaunchPlan({}, without_worker, {}).status().message()),
              HasSubstr("/no/composer_worker is missing"));
}

TEST(RunLockTest, OneOwnerAtATime) {
  TempDir dir;
  auto first = RunLock::Take(dir.Path("run"));
  ASSERT_TRUE(first.ok()) << first.status();
  const auto second = RunLock::Take(dir.Path("run"), absl::ZeroDuration());
  EXPECT_EQ(second.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(second.status().message()), HasSubstr(absl::StrCat("(pid ", getpid(), ")")));
  first->reset();
  EXPECT_TRUE(RunLock::Take(dir.Path("run"), absl::ZeroDuration()).ok());
}

TEST(RunLockTest, WaitsForTheRestOfADeadOwnersJob) {
  TempDir dir;
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t owner = fork();
  if (owner == 0) {
    auto lock = RunLock::Take(dir.Path("run"));
    if (fork() == 0) {  // acts as the spawner: holds the lock a little longer than the owner lives
      usleep(100'000);
      _exit(0);
    }
    [[maybe_unused]] const ssize_t ignored = write(ready[1], "x", 1);
    _exit(0);
  }
  char byte;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  waitpid(owner, nullptr, 0);
  EXPECT_TRUE(RunLock::Take(dir.Path("run")).ok());
}

}  // namespace
}  // namespace composer
