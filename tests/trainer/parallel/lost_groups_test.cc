// A rank is killed while all are in collectives, of each kind and over each transport: every other process exits by
// itself with a cause that names the collective. The time until the last one has exited is printed (goal: 1 s; half a
// second is typical of a busy machine). The test only asserts that nobody waits for a timeout of minutes.
// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <vector>

#include "base/file.h"
#include "tests/support/processes.h"
#include "tests/support/temp_dir.h"

namespace composer {
namespace {

using testing::HasSubstr;

struct Row {
  const char* means;
  const char* kind;
  const char* named;  // expected in the causes
};

void PrintTo(const Row& row, std::ostream* out) { *out << row.means << " " << row.kind; }

class LostGroup : public testing::TestWithParam<Row> {};

TEST_P(LostGroup, EveryOtherRankLeavesWithTheCause) {
  const Row row = GetParam();
  const bool splits = std::string(row.kind) == "split";
  const int size = splits ? 4 : 3, lost = size - 1;
  const TempDir dir;
  std::vector<pid_t> ranks;
  for (int rank = 0; rank < size; ++rank) {
    const std::string number = std::to_string(rank), count = std::to_string(size);
    const pid_t pid = fork();
    if (pid == 0) {
      execl(COLLECTIVE_RANK_BINARY, COLLECTIVE_RANK_BINARY, dir.path().c_str(), number.c_str(), count.c_str(),
            row.means, row.kind, nullptr);
      _exit(127);
    }
    ranks.push_back(pid);
  }
  const auto all = [&](const auto& holds) {
    for (int rank = 0; rank < size; ++rank) {
      if (rank != lost && !holds(rank)) return false;
    }
    return true;
  };
  EXPECT_TRUE(WaitUntil(
      [&] { return all([&](int rank) { return std::filesystem::exists(dir.Path("ready" + std::to_string(rank))); }); },
      absl::Seconds(60)));
  kill(ranks[static_cast<size_t>(lost)], SIGKILL);
  const absl::Time killed = absl::Now();
  EXPECT_TRUE(WaitUntil([&] { return all([&](int rank) { return !IsAlive(ranks[static_cast<size_t>(rank)]); }); },
                        absl::Seconds(30)));
  std::printf("| %s | %s | %.0f ms |\n", row.means, row.kind, absl::ToDoubleMilliseconds(absl::Now() - killed));
  for (int rank = 0; rank < size; ++rank) {
    kill(ranks[static_cast<size_t>(rank)], SIGKILL);
    int status = 0;
    waitpid(ranks[static_cast<size_t>(rank)], &status, 0);
    if (rank == lost) continue;
    EXPECT_TRUE(WIFEXITED(status)) << "rank " << rank << ": signal " << WTERMSIG(status);
    const std::string cause = ReadFile(dir.Path("cause" + std::to_string(rank))).value_or("nothing was written");
    EXPECT_EQ(WEXITSTATUS(status), 69) << "rank " << rank << ": " << cause;
    EXPECT_THAT(cause, HasSubstr(std::string(row.named) + " number ")) << "rank " << rank;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Means, LostGroup,
    testing::Values(Row{"gloo", "all_reduce", "all-reduce"}, Row{"gloo", "all_gather", "all-gather"},
                    Row{"gloo", "reduce_scatter", "reduce-scatter"}, Row{"gloo", "broadcast", "broadcast"},
                    Row{"gloo", "barrier", "all-reduce"}, Row{"gloo", "split", "all-reduce"},
                    Row{"checked_gloo", "all_reduce", "all-reduce"}, Row{"shared_memory", "all_reduce", "all-reduce"},
                    Row{"shared_memory", "barrier", "all-reduce"}, Row{"shared_memory", "split", "all-reduce"}),
    [](const auto& test) { return std::string(test.param.means) + "_" + test.param.kind; });

}  // namespace
}  // namespace composer
