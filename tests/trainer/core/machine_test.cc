// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "base/file.h"
#include "base/machine_stats.h"
#include "base/name_template.h"
#include "base/nvml.h"
#include "tests/support/temp_dir.h"
#include "trainer/memory/out_of_memory.h"

namespace composer {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(MachineStatsTest, ProcessorsAreBusyWhenTheyAreNeitherIdleNorWaiting) {
  const auto before = ParseCpuTimes("cpu  100 0 50 800 50 0 0 0 10 0\ncpu0 1 2 3\n");
  const auto now = ParseCpuTimes("cpu  150 0 75 850 75 10 10 5 10 0\n");
  ASSERT_TRUE(before.ok() && now.ok());
  EXPECT_EQ(before->total, 1000);  // guests are already included in user
  EXPECT_EQ(before->idle, 850);
  EXPECT_DOUBLE_EQ(CpuPercent(*before, *now), 100.0 * (175 - 75) / 175);
  EXPECT_EQ(CpuPercent(*now, *now), 0);
  EXPECT_FALSE(ParseCpuTimes("intr 1 2 3 4 5 6").ok());
  EXPECT_FALSE(ParseCpuTimes("").ok());
}

TEST(MachineStatsTest, MemoryIsInBytes) {
  const auto memory = ParseMachineMemory(
      "MemTotal:       1000 kB\nMemFree:         200 kB\nMemAvailable:    400 kB\nBuffers:          10 kB\n"
      "Cached:           90 kB\nActive:          300 kB\nInactive:        100 kB\nShmem:  5 kB\nSlab: 8 kB\n"
      "SReclaimable:     10 kB\nHugePages_Total:       0\n");
  ASSERT_TRUE(memory.ok()) << memory.status();
  EXPECT_EQ(memory->total, 1000 * 1024);
  EXPECT_EQ(memory->used, 600 * 1024);
  EXPECT_EQ(memory->cached, 100 * 1024);
  EXPECT_DOUBLE_EQ(memory->percent(), 60);
  EXPECT_EQ(ParseMachineMemory("MemTotal: 1 kB\n").status().message(), "/proc/meminfo has no MemAvailable");
}

TEST(MachineStatsTest, InterfacesAreAddedUp) {
  const auto network = ParseNetworkCounters(
      "Inter-|   Receive                                                |  Transmit\n"
      " face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls "
      "carrier\n"
      "    lo:     100      2    0    0    0     0          0         0      100       2    0    0    0     0       0 "
      "0\n"
      "  eth0:    5000     40    1    2    0     0          0         0     3000      30    3    4    0     0       0 "
      "0\n");
  ASSERT_TRUE(network.ok()) << network.status();
  EXPECT_EQ(network->bytes_recv, 5100);
  EXPECT_EQ(network->bytes_sent, 3100);
  EXPECT_EQ(network->packets_sent, 32);
  EXPECT_EQ(network->errin, 1);
  EXPECT_EQ(network->dropout, 4);
  EXPECT_FALSE(ParseNetworkCounters("eth0: 1 2 3\n").ok());
}

TEST(MachineStatsTest, TheLargestProcessesComeFirst) {
  TempDir proc;
  const auto add = [&](const std::string& pid, const std::string& name, const std::string& statm) {
    ASSERT_TRUE(MakeDirs(proc.Path(pid)).ok());
    ASSERT_TRUE(AtomicWriteFile(proc.Path(pid + "/comm"), name + "\n").ok());
    ASSERT_TRUE(AtomicWriteFile(proc.Path(pid + "/statm"), statm).ok());
  };
  add("7", "small", "100 10 1 1 0 1 0\n");
  add("12", "large", "900 800 1 1 0 1 0\n");
  add("13", "kthread", "0 0 0 0 0 0 0\n");
  ASSERT_TRUE(MakeDirs(proc.Path("sys")).ok());
  const auto processes = LargestProcesses(2, proc.path());
  ASSERT_EQ(processes.size(), 2u);
  EXPECT_EQ(processes[0].pid, 12);
  EXPECT_EQ(processes[0].name, "large");
  EXPECT_EQ(processes[0].resident_bytes, 800 * sysconf(_SC_PAGESIZE));
  EXPECT_EQ(processes[1].name, "small");
}

TEST(MachineStatsTest, NamesOfTheMachineAreBounded) {
  const TempDir folder;
  ASSERT_TRUE(AtomicWriteFile(folder.Path("os-release"), "NAME=\"X\"\nPRETTY_NAME=\"Debian GNU/Linux 12\"\n").ok());
  ASSERT_TRUE(AtomicWriteFile(folder.Path("cpuinfo"),
                              "vendor_id\t: A\nmodel name\t: " + std::string(300, 'x') + "\nmodel name\t: second\n")
                  .ok());
  const MachineNames names = ReadMachineNames(folder.path(), folder.path());
  EXPECT_EQ(names.os, "Debian GNU/Linux 12");
  EXPECT_EQ(names.processor, std::string(200, 'x'));
  EXPECT_THAT(names.kernel, HasSubstr("Linux "));
  EXPECT_EQ(ReadMachineNames(folder.Path("none"), folder.Path("none")).os, "");
}

TEST(MachineStatsTest, ThisMachineCanBeRead) {
  const auto memory = ReadMachineMemory();
  ASSERT_TRUE(memory.ok()) << memory.status();
  EXPECT_GT(memory->total, 0);
  EXPECT_TRUE(ReadCpuTimes().ok());
  EXPECT_TRUE(ReadNetworkCounters().ok());
  const auto disk = ReadDiskSpace("/");
  ASSERT_TRUE(disk.ok()) << disk.status();
  EXPECT_GT(disk->total, 0);
  EXPECT_LE(disk->percent(), 100);
  EXPECT_THAT(std::string(ReadDiskSpace("/no/such").status().message()), HasSubstr("/no/such"));
  EXPECT_NE(ProcessName(getpid()), "");
  EXPECT_EQ(ProcessName(-1), "");
}

TEST(NameTemplateTest, KnownPlaceholdersAreFilledInOthersStay) {
  const PlaceholderValues values = PlaceholdersOf({"my{rank}run", 5, 1, 2, 8, 4});
  EXPECT_EQ(FillTemplate("{run_name}/logs-rank{rank}.txt", values), "my{rank}run/logs-rank5.txt");
  EXPECT_EQ(FillTemplate("{local_rank}{node_rank}{world_size}{local_world_size}", values), "1284");
  EXPECT_EQ(FillTemplate("{unknown} {rank", values), "{unknown} {rank");
  EXPECT_EQ(FillTemplate("{{rank}}", values), "{5}");
  EXPECT_TRUE(HasPlaceholder("a{rank}", "rank"));
  EXPECT_FALSE(HasPlaceholder("a{local_rank}", "rank"));
}

TEST(OutOfMemoryTest, RequestsAreFoundInBothAllocatorsMessages) {
  const struct {
    const char* error;
    int64_t bytes;
  } kCases[] = {
      {"CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 79.11 GiB", 20 << 20},
      {"CUDA out of memory. Tried to allocate 1.50 GiB (GPU 0; ", 1610612736},
      {"[enforce fail at alloc_cpu.cpp:120] . DefaultCPUAllocator: can't allocate memory: you tried to allocate 1234 "
       "bytes. Error code 12 (Cannot allocate memory)",
       1234},
      {"Tried to allocate lots", 0},
      {"std::bad_alloc", 0}};
  for (const auto& c : kCases) EXPECT_EQ(RequestedBytes(c.error), c.bytes) << c.error;
}

TEST(OutOfMemoryTest, SmallerMicrobatches) {
  const std::pair<int64_t, int64_t> kCases[] = {{64, 32}, {7, 4}, {3, 2}, {2, 1}, {1, 0}, {0, 0}};
  for (const auto& [now, next] : kCases) EXPECT_EQ(SmallerMicrobatch(now), next);
}

OutOfMemoryFacts OnGpu() {
  OutOfMemoryFacts facts;
  facts.error = "CUDA out of memory. Tried to allocate 2.00 GiB.";
  facts.device = "cuda:0";
  facts.rank = 3;
  facts.batch = 12;
  facts.device_batch_size = 64;
  facts.total_bytes = 85'000'000'000, facts.free_bytes = 800'000'000;
  facts.allocated_bytes = 70'000'000'000, facts.peak_bytes = 75'000'000'000, facts.reserved_bytes = 71'000'000'000;
  facts.own_pid = 10;
  facts.users = {{10, "composer_worker", 76'000'000'000}, {4711, "python3", 8'100'000'000}, {5, "Xorg", 9'000'000}};
  return facts;
}

TEST(OutOfMemoryTest, SaysWhatToLowerAndWhoElseIsThere) {
  EXPECT_EQ(OutOfMemoryAdvice(OnGpu()),
            "out of memory on cuda:0 (rank 3) in batch 12: 2.15 GB more were asked for\n"
            "  memory: 85 GB, 0.8 GB of it free; this process: 70 GB in tensors (peak 75 GB), 1 GB kept for reuse\n"
            "  lower device_train_microbatch_size first: 64 -> 32, or auto; the gradients stay the same\n"
            "  others there: python3 (pid 4711) 8.1 GB");
}

TEST(OutOfMemoryTest, GoesByWhatIsLikelyToHelp) {
  OutOfMemoryFacts facts = OnGpu();
  facts.device_train_microbatch_size = 8;
  EXPECT_THAT(OutOfMemoryAdvice(facts), HasSubstr("first: 8 -> 4, or auto"));
  facts.device_train_microbatch_size = 1;
  EXPECT_THAT(OutOfMemoryAdvice(facts), HasSubstr("one sample is too much already"));
  facts.device_train_microbatch_size = 16, facts.automatic = true;
  EXPECT_THAT(OutOfMemoryAdvice(facts), HasSubstr("one sample is too much already"));
  facts.in_evaluation = true;
  EXPECT_THAT(OutOfMemoryAdvice(facts), HasSubstr("lower the evaluation's batch_size first"));
  facts.reserved_bytes = facts.allocated_bytes + (int64_t{3} << 30);
  EXPECT_THAT(OutOfMemoryAdvice(facts), HasSubstr("expandable_segments"));
  facts.users[1].bytes = 80'000'000'000;
  EXPECT_THAT(OutOfMemoryAdvice(facts), HasSubstr("python3 (pid 4711) 80 GB; end them or use another device\n  lower"));
}

TEST(OutOfMemoryTest, OnACpuNothingIsSaidOfAnAllocatorsCache) {
  OutOfMemoryFacts facts = OnGpu();
  facts.device = "cpu";
  facts.users.clear();
  const std::string advice = OutOfMemoryAdvice(facts);
  EXPECT_THAT(advice, HasSubstr("out of memory on cpu (rank 3)"));
  EXPECT_THAT(advice, Not(HasSubstr("in tensors")));
  EXPECT_THAT(advice, Not(HasSubstr("expandable_segments")));
  EXPECT_THAT(advice, Not(HasSubstr("others")));
  EXPECT_EQ(OutOfMemoryAdvice({.device = "cpu", .batch = 1}),
            "out of memory on cpu (rank 0) in batch 1\n"
            "  lower device_train_microbatch_size first, or set it to auto; the gradients stay the same");
}

TEST(OutOfMemoryTest, UsersAreThoseOfTheDeviceOrTheMachine) {
  const auto nvml = Nvml::Load(FAKE_NVML);
  ASSERT_TRUE(nvml.ok()) << nvml.status();
  const auto users = GpuMemoryUsers(**nvml, 0);
  ASSERT_EQ(users.size(), 2u);
  EXPECT_EQ(users[0].bytes, 2'000'000'000);
  const auto host = HostMemoryUsers(3);
  ASSERT_FALSE(host.empty());
  EXPECT_LE(host.size(), 3u);
  EXPECT_GT(host[0].bytes, 0);
}

}  // namespace
}  // namespace composer
