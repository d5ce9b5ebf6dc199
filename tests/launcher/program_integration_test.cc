// Runs the real binary with plain programs: exit codes, messages, signals, and that nothing is left behind.
// SPDX-License-Identifier: Apache-2.0
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "launcher/process/process_tree.h"
#include "launcher/subcommands.h"
#include "launcher/workers/node_resources.h"
#include "tests/launcher/launched.h"

namespace composer {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class ProgramTest : public testing::Test {
 protected:
  std::string Composer() const { return COMPOSER_BINARY; }
  // Runs `script` on n ranks.
  std::vector<std::string> Shell(int n, const std::string& script, std::vector<std::string> flags = {}) const {
    flags.insert(flags.end(), {absl::StrCat("-n", n), "-c", "sh", "-c", script});
    return flags;
  }
  void ExpectNothingLeft() {
    const auto names = ListDir(dir_.path());
    ASSERT_TRUE(names.ok());
    for (const std::string& name : *names) EXPECT_THAT(name, Not(HasSubstr("composer-"))) << "temporary folder left";
  }

  TempDir dir_;
};

TEST_F(ProgramTest, EveryRankRunsWithItsEnvironment) {
  Launched run(dir_, Composer(),
               Shell(2,
                     "echo $RANK $LOCAL_RANK $WORLD_SIZE $LOCAL_WORLD_SIZE $NODE_RANK $GROUP_RANK $MASTER_ADDR "
                     "$TORCHELASTIC_RESTART_COUNT > env-$RANK"));
  EXPECT_EQ(run.Wait(), 0) << run.err();
  EXPECT_EQ(*ReadFile(dir_.Path("env-0")), "0 0 2 2 0 0 127.0.0.1 0\n");
  EXPECT_EQ(*ReadFile(dir_.Path("env-1")), "1 1 2 2 0 0 127.0.0.1 0\n");
  EXPECT_EQ(run.err(), "");
  ExpectNothingLeft();
}

TEST_F(ProgramTest, RankZeroIsShownAsItIsAndOthersPrefixed) {
  Launched run(dir_, Composer(), Shell(2, "printf \"r$RANK\\n\"; echo e$RANK >&2"));
  EXPECT_EQ(run.Wait(), 0);
  EXPECT_THAT(run.out(), AllOf(HasSubstr("r0\n"), HasSubstr("[1] r1\n"), Not(HasSubstr("[0]"))));
  EXPECT_THAT(run.err(), AllOf(HasSubstr("e0\n"), HasSubstr("[1] e1\n")));
}

TEST_F(ProgramTest, TeePrefixesAll) {
  Launched run(dir_, Composer(), Shell(2, "echo r$RANK", {"--tee"}));
  EXPECT_EQ(run.Wait(), 0);
  EXPECT_THAT(run.out(), AllOf(HasSubstr("[0] r0\n"), HasSubstr("[1] r1\n")));
}

TEST_F(ProgramTest, TheFirstFailureByTimeIsNamedAndGivesTheCode) {
  Launched run(dir_, Composer(),
               Shell(3, "if test $RANK = 1; then echo bad luck >&2; exit 7; fi; trap 'exit 9' TERM; sleep 10 & wait"));
  EXPECT_EQ(run.Wait(), 7);
  EXPECT_THAT(run.err(), AllOf(HasSubstr("composer: rank 1 on "), HasSubstr(") exited with 7\n"),
                               HasSubstr("[1] bad luck\n"), Not(HasSubstr("  | bad luck"))))
      << "what the terminal has shown is not repeated";
  EXPECT_THAT(run.err(), Not(HasSubstr("rank 0 on")));
  ExpectNothingLeft();
}

TEST_F(ProgramTest, DeathBySignal) {
  Launched run(dir_, Composer(), Shell(2, "test $RANK = 0 && kill -SEGV $$; sleep 10"));
  EXPECT_EQ(run.Wait(), 128 + SIGSEGV);
  EXPECT_THAT(run.err(), HasSubstr("was killed by SIGSEGV (11)"));
}

TEST_F(ProgramTest, RestartsAreCountedAndBounded) {
  Launched run(dir_, Composer(),
               Shell(2, "echo $TORCHELASTIC_RESTART_COUNT >> tries-$RANK; test $RANK = 1 && kill -9 $$; sleep 10",
                     {"--max-restarts=2"}));
  EXPECT_EQ(run.Wait(), 93);
  EXPECT_EQ(*ReadFile(dir_.Path("tries-1")), "0\n1\n2\n");
  EXPECT_THAT(run.err(), AllOf(HasSubstr("restart 1 of 2"), HasSubstr("restart 2 of 2"), HasSubstr("giving up")));
}

TEST_F(ProgramTest, ARestartThatHelps) {
  Launched run(dir_, Composer(), Shell(2, "test $TORCHELASTIC_RESTART_COUNT = 1 || exit 3", {"--max-restarts=2"}));
  EXPECT_EQ(run.Wait(), 0) << run.err();
}

TEST_F(ProgramTest, RespawnIsQuick) {
  Launched run(dir_, Composer(),
               Shell(2,
                     "date +%s%N > start-$TORCHELASTIC_RESTART_COUNT-$RANK; test $RANK$TORCHELASTIC_RESTART_COUNT = 10 "
                     "&& { date +%s%N > died; kill -9 $$; }; test $TORCHELASTIC_RESTART_COUNT = 1 || sleep 10",
                     {"--max-restarts=1"}));
  EXPECT_EQ(run.Wait(), 0) << run.err();
  const int64_t died = std::stoll(*ReadFile(dir_.Path("died")));
  for (const char* rank : {"start-1-0", "start-1-1"}) {
    const double millis = static_cast<double>(std::stoll(*ReadFile(dir_.Path(rank))) - died) / 1e6;
    RecordProperty(rank, absl::StrCat(millis));
    EXPECT_LT(millis, 2000);  // 100 on an idle machine
  }
}

TEST_F(ProgramTest, SigtermIsForwarded) {
  Launched run(dir_, Composer(),
               Shell(2, "trap 'echo got it; exit 0' TERM; echo $$ > pid-$RANK; while true; do sleep 0.01; done"));
  ASSERT_GT(WaitForPidFile(dir_.Path("pid-0")), 0);
  ASSERT_GT(WaitForPidFile(dir_.Path("pid-1")), 0);
  run.Signal(SIGTERM);
  EXPECT_EQ(run.Wait(), 128 + SIGTERM);
  EXPECT_THAT(run.out(), AllOf(HasSubstr("got it\n"), HasSubstr("[1] got it\n")));
  ExpectNothingLeft();
}

TEST_F(ProgramTest, ASecondSignalKillsAtOnce) {
  Launched run(dir_, Composer(),
               Shell(1, "trap 'touch told' TERM INT; echo $$ > pid; while true; do sleep 0.01; done"));
  const pid_t worker = WaitForPidFile(dir_.Path("pid"));
  ASSERT_GT(worker, 0);
  run.Signal(SIGINT);
  ASSERT_TRUE(WaitUntil([&] { return PathExists(dir_.Path("told")); }, absl::Seconds(10)));
  EXPECT_TRUE(IsAlive(worker));
  run.Signal(SIGINT);
  EXPECT_EQ(run.Wait(absl::Seconds(2)), 128 + SIGINT);
  EXPECT_FALSE(IsAlive(worker));
}

TEST_F(ProgramTest, NothingOutlivesASigkilledLauncher) {
  Launched run(dir_, Composer(),
               Shell(2,
                     "setsid sh -c 'echo $$ > daemon-'$RANK'; exec sleep 1000' & echo $$ > worker-$RANK; trap '' TERM; "
                     "while true; do sleep 1; done"));
  std::vector<pid_t> family;
  for (const char* file : {"worker-0", "worker-1", "daemon-0", "daemon-1"})
    family.push_back(WaitForPidFile(dir_.Path(file)));
  for (const pid_t pid : family) ASSERT_TRUE(IsAlive(pid));
  for (const pid_t pid : WithDescendants({run.pid()})) family.push_back(pid);
  run.Signal(SIGKILL);
  EXPECT_EQ(run.Wait(), 137);
  for (const pid_t pid : family) EXPECT_TRUE(WaitUntil([&] { return !IsAlive(pid); }, absl::Seconds(1))) << pid;
  EXPECT_TRUE(WaitUntil([&] { return ListDir(dir_.path())->size() == 7; },
                        absl::Seconds(1)));  // four pid files, stdout, stderr, runtime
}

TEST_F(ProgramTest, ADaemonOfADeadGenerationIsEnded) {
  Launched run(dir_, Composer(),
               Shell(1,
                     "test $TORCHELASTIC_RESTART_COUNT = 1 && exec sleep 0.2; setsid sh -c 'echo $$ > daemon; exec "
                     "sleep 1000' & while ! test -s daemon; do sleep 0.01; done; kill -9 $$",
                     {"--max-restarts=1"}));
  const pid_t daemon = WaitForPidFile(dir_.Path("daemon"));
  EXPECT_TRUE(WaitUntil([&] { return !IsAlive(daemon); }, absl::Seconds(1)));
  EXPECT_EQ(run.Wait(), 0) << run.err();
}

TEST_F(ProgramTest, WhenTheSpawnerDiesAndThereAreNoRestartsEverythingEnds) {
  Launched run(dir_, Composer(), Shell(1, "echo $$ > worker; sleep 1000; true"));
  const pid_t worker = WaitForPidFile(dir_.Path("worker"));
  const std::vector<pid_t> children = ChildrenOf(run.pid());
  ASSERT_EQ(children.size(), 2u) << "orphan reaper and spawner";
  kill(children[1], SIGKILL);
  EXPECT_EQ(run.Wait(), 70);
  EXPECT_FALSE(IsAlive(worker));
  EXPECT_THAT(run.err(), HasSubstr("composer-spawn, which starts the workers, was killed by SIGKILL (9)"));
  ExpectNothingLeft();
}

TEST_F(ProgramTest, WorkersGoOnWhileTheRendezvousIsRestarted) {
  Launched run(
      dir_, Composer(),
      Shell(
          2,
          "echo $$ > pid-$RANK; until test -e go; do sleep 0.01; done; test $TORCHELASTIC_RESTART_COUNT = 1 || exit 5",
          {"--max-restarts=1"}));
  ASSERT_GT(WaitForPidFile(dir_.Path("pid-0")), 0);
  const pid_t worker = WaitForPidFile(dir_.Path("pid-1"));
  const pid_t spawner = ChildrenOf(run.pid()).back();
  pid_t rendezvous = 0;
  for (const pid_t child : ChildrenOf(spawner)) {
    if (ReadFile(absl::StrCat("/proc/", child, "/comm")).value_or("") == "composer-serve\n") rendezvous = child;
  }
  ASSERT_GT(rendezvous, 0);
  kill(rendezvous, SIGKILL);
  EXPECT_TRUE(WaitUntil([&] { return run.err().find("starting it again") != std::string::npos; }, absl::Seconds(5)));
  EXPECT_TRUE(IsAlive(worker));
  ASSERT_TRUE(AtomicWriteFile(dir_.Path("go"), "").ok());  // workers fail; the next ones need the new rendezvous
  EXPECT_EQ(run.Wait(), 0) << run.err();
}

TEST_F(ProgramTest, UserErrors) {
  struct Case {
    std::vector<std::string> arguments;
    std::string message;
  };
  const std::vector<Case> cases = {
      {{}, "nothing to run"},
      {{"--nprocs=2", "-c", "true"}, "unknown flag --nprocs (did you mean `--nproc`?)"},
      {{"-n", "0", "-c", "true"}, "nproc 0 (-n): a node has at least 1 worker"},
      {{"--nproc=-3", "-c", "true"}, "`-3` must be a whole number"},
      {{"missing.yaml"}, "no such file: missing.yaml"},
      {{"missing.py"}, "no such file: missing.py"},
      {{"chekpoint", "show"}, "did you mean `checkpoint`?"},
      {{"-c", "-m", "x"}, "exclude each other"},
      {{"-c", "no-such-program"}, "no such program: no-such-program"},
      {{"--master_port=70000", "-c", "true"}, "from 0 to 65535"},
      {{"./stdout"}, "is not executable"},
      {{"stat"}, "did you mean `status`?"},
      {{"hostname"}, "to run the program on each rank: composer -c hostname"},
      {{"-n", "2", "true"}, "composer -c true"},
      {{"train", "a.yaml"}, "(a job needs no subcommand: composer a.yaml)"},
      {{"help", "trian"}, "there is no command `trian`"},
  };
  for (const Case& c : cases) {
    Launched run(dir_, Composer(), c.arguments);
    EXPECT_EQ(run.Wait(), 64) << c.message;
    EXPECT_THAT(run.err(), HasSubstr(c.message));
  }
}

TEST_F(ProgramTest, PortInUse) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
  socklen_t size = sizeof(address);
  ASSERT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(listen(fd, 1), 0);
  getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
  const int port = ntohs(address.sin_port);
  Launched run(dir_, Composer(), {absl::StrCat("--master_port=", port), "-c", "true"});
  EXPECT_EQ(run.Wait(), 64);
  EXPECT_THAT(run.err(), AllOf(HasSubstr(absl::StrCat("port ", port, " is in use")), HasSubstr("--master_port")));
  close(fd);
  ExpectNothingLeft();
}

TEST_F(ProgramTest, ScriptsWithAndWithoutExtension) {
  ASSERT_TRUE(
      AtomicWriteFile(dir_.Path("train.py"), "import os, sys\nprint('py', os.environ['RANK'], sys.argv[1])\n").ok());
  Launched python(dir_, Composer(), {"train.py", "--lr"});
  EXPECT_EQ(python.Wait(), 0) << python.err();
  EXPECT_EQ(python.out(), "py 0 --lr\n");
  ASSERT_TRUE(AtomicWriteFile(dir_.Path("go.sh"), "#!/bin/sh\necho sh $RANK $1\n").ok());
  ASSERT_EQ(chmod(dir_.Path("go.sh").c_str(), 0755), 0);
  Launched script(dir_, Composer(), {"./go.sh", "x"});
  EXPECT_EQ(script.Wait(), 0) << script.err();
  EXPECT_EQ(script.out(), "sh 0 x\n");
}

TEST_F(ProgramTest, FilesOfRanksAndStreams) {
  const std::string script = "echo o$RANK; echo e$RANK >&2";
  Launched composer_way(dir_, Composer(),
                        Shell(3, script, {"--stdout", "out/{rank:02d}", "--stderr", "err-{local_rank}"}));
  EXPECT_EQ(composer_way.Wait(), 0) << composer_way.err();
  EXPECT_EQ(composer_way.out(), "o0\n");
  EXPECT_EQ(composer_way.err(), "e0\n");
  EXPECT_EQ(*ReadFile(dir_.Path("out/01")), "o1\n");
  EXPECT_EQ(*ReadFile(dir_.Path("err-2")), "e2\n");
  Launched torchrun_way(dir_, Composer(), Shell(2, script, {"--rdzv-id=j", "--log-dir", "l", "-r", "0:3", "-t1:1"}));
  EXPECT_EQ(torchrun_way.Wait(), 0) << torchrun_way.err();
  EXPECT_EQ(torchrun_way.out(), "[1] o1\n");
  EXPECT_EQ(torchrun_way.err(), "[1] e1\n");
  EXPECT_EQ(*ReadFile(dir_.Path("l/j/attempt_0/0/stdout.log")), "o0\n");
  EXPECT_EQ(*ReadFile(dir_.Path("l/j/attempt_0/0/stderr.log")), "e0\n");
  EXPECT_EQ(*ReadFile(dir_.Path("l/j/attempt_0/1/stdout.log")), "o1\n");
  EXPECT_FALSE(PathExists(dir_.Path("l/j/attempt_0/1/stderr.log")));
}

TEST_F(ProgramTest, VariablesInArgumentsOnlyWhenAsked) {
  Launched plain(dir_, Composer(), {"-n1", "-c", "echo", "$RANK", "~"});
  EXPECT_EQ(plain.Wait(), 0);
  EXPECT_EQ(plain.out(), "$RANK ~\n");
  Launched expanded(dir_, Composer(), {"-n2", "--expand-vars", "-c", "echo", "${RANK}/$WORLD_SIZE", "$NONE"});
  EXPECT_EQ(expanded.Wait(), 0);
  EXPECT_THAT(expanded.out(), AllOf(HasSubstr("0/2 $NONE\n"), HasSubstr("[1] 1/2 $NONE\n")));
}

TEST_F(ProgramTest, AnImpossibleShapeEndsAtOnce) {
  Launched run(dir_, Composer(), {"-n", "8", "--world_size", "8", "--node_rank", "1", "-c", "true"});
  EXPECT_EQ(run.Wait(absl::Seconds(5)), 64);
  EXPECT_THAT(run.err(),
              HasSubstr("make one node, whose node-rank is 0; for two nodes of 8 workers give --world_size 16"));
}

TEST_F(ProgramTest, MasterPortIsTheScriptsOwn) {
  ASSERT_TRUE(AtomicWriteFile(dir_.Path("bind.py"),
                              "import os, socket\n"
                              "if os.environ['RANK'] == '0':\n"
                              "  socket.create_server(('', int(os.environ['MASTER_PORT'])))\n"
                              "print(os.environ['MASTER_PORT'])\n")
                  .ok());
  const std::string port = absl::StrCat(*FreePort());
  Launched run(dir_, Composer(), {"-n2", "--master_port", port, "bind.py"});
  EXPECT_EQ(run.Wait(), 0) << run.err();
  EXPECT_THAT(run.out(), Not(HasSubstr(port)));
}

TEST_F(ProgramTest, RunIsAWordToo) {
  Launched run(dir_, Composer(), {"run", "-n2", "-c", "sh", "-c", "echo $RANK > r-$RANK"});
  EXPECT_EQ(run.Wait(), 0) << run.err();
  EXPECT_TRUE(PathExists(dir_.Path("r-1")));
  Launched twice(dir_, Composer(), {"run", "run"});
  EXPECT_EQ(twice.Wait(), 64);
}

TEST_F(ProgramTest, VersionHelpExplainDryRun) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"--version"}, "composer "},
      {{"version"}, "composer "},
      {{"--help"}, "--max-restarts N"},
      {{"--explain", "-n", "3", "-c", "true"}, "nproc              3                        flag -n"},
      {{"--dry-run", "-n", "3", "-c", "true"}, "3 workers: "},
      {{"--dry-run", "--nnodes=1:2", "--rdzv-endpoint=x:1", "-c", "true"},
       "rendezvous: x:1, served by the machine that has"},
      {{"--print-completion", "bash"}, "complete -o default"},
      {{"--print-completion=man"}, ".SH SYNOPSIS"},
  };
  for (const auto& [arguments, text] : cases) {
    Launched run(dir_, Composer(), arguments);
    EXPECT_EQ(run.Wait(), 0);
    EXPECT_THAT(run.out(), HasSubstr(text));
  }
}

// The names come from the table itself; tests/integration/help_test.py checks those of composer_worker's commands.
TEST_F(ProgramTest, EveryCommandOfTheLauncherHasHelp) {
  for (const Subcommand& command : Subcommands()) {
    const std::set<std::string> of_worker = {"validate", "plan",     "checkpoint", "data",
                                             "store",    "tokenize", "tokenizer",  "trace"};
    if (of_worker.count(command.name) > 0) continue;
    for (const std::vector<std::string>& words :
         {std::vector<std::string>{command.name, "--help"}, {"help", command.name}, {command.name, "-h"}}) {
      Launched run(dir_, Composer(), words);
      EXPECT_EQ(run.Wait(), 0) << command.name << run.err();
      const bool general = command.name == "run" || command.name == "help";
      EXPECT_THAT(run.out(), HasSubstr(general ? "\nusage:\n" : absl::StrCat("usage: composer ", command.name)));
      EXPECT_EQ(run.err(), "");
      for (const absl::string_view line : absl::StrSplit(run.out(), '\n')) EXPECT_LE(line.size(), 80u) << line;
      for (const std::string& flag : command.flags) EXPECT_THAT(run.out(), HasSubstr(flag)) << command.name;
    }
  }
}

TEST_F(ProgramTest, Doctor) {
  Launched doctor(dir_, Composer(), {"doctor", "--json", "127.0.0.1:1"});
  EXPECT_EQ(doctor.Wait(), 69) << doctor.err();  // nobody listens there
  EXPECT_THAT(doctor.out(), AllOf(HasSubstr("127.0.0.1:1: connection refused"), HasSubstr("\"area\": \"disk\"")));
  Launched wrong(dir_, Composer(), {"doctor", "--jsn"});
  EXPECT_EQ(wrong.Wait(), 64);
  EXPECT_THAT(wrong.err(), HasSubstr("did you mean `--json`?"));
}

TEST_F(ProgramTest, ServeAlone) {
  Launched serve(dir_, Composer(), {"serve", "--job=x"});
  EXPECT_TRUE(WaitUntil([&] { return std::atoi(serve.out().c_str()) > 0; }, absl::Seconds(5)));
  serve.Signal(SIGTERM);
  EXPECT_EQ(serve.Wait(), 0);
}

}  // namespace
}  // namespace composer
