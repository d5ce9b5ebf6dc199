// SPDX-License-Identifier: Apache-2.0
#include "trainer/profiler/proc_stats.h"

#include <gtest/gtest.h>

#include <set>

#include "trainer/profiler/system_sampler.h"

namespace composer {
namespace {

TEST(ProcStats, ResidentBytes) {
  EXPECT_EQ(ParseResidentBytes("5000 1234 300 1 0 400 0\n", 4096).value(), 1234 * 4096);
  EXPECT_FALSE(ParseResidentBytes("5000", 4096).ok());
}

TEST(ProcStats, DisksWithoutPartitions) {
  const auto disks = ParseDisks(
      "   8       0 sda 10 0 200 5 20 0 400 7 0 90 12 0 0 0 0\n"
      "   8       1 sda1 10 0 200 5 20 0 400 7 0 90 12 0 0 0 0\n"
      "   7       0 loop0 10 0 200 5 20 0 400 7 0 90 12\n"
      " 259       0 nvme0n1 1 0 2 3 4 0 6 7 0 8 9\n"
      " 259       1 nvme0n1p1 1 0 2 3 4 0 6 7 0 8 9\n"
      "too short\n");
  ASSERT_EQ(disks.size(), 2u);
  EXPECT_EQ(disks.at("sda").read_bytes, 200 * 512);
  EXPECT_EQ(disks.at("sda").written_bytes, 400 * 512);
  EXPECT_EQ(disks.at("sda").busy_ms, 90);
  EXPECT_EQ(disks.at("nvme0n1").written_bytes, 6 * 512);
}

TEST(ProcStats, Network) {
  const auto network = ParseNetwork(
      "Inter-|   Receive                |  Transmit\n face |bytes packets errs drop fifo frame compressed "
      "multicast|bytes\n"
      "    lo: 100 2 0 0 0 0 0 0 100 2 0 0 0 0 0 0\n  eth0:12345 9 0 0 0 0 0 0 678 8 0 0 0 0 0 0\n");
  ASSERT_EQ(network.size(), 2u);
  EXPECT_EQ(network.at("eth0").received_bytes, 12345);
  EXPECT_EQ(network.at("eth0").sent_bytes, 678);
}

TEST(SystemReader, ReadsThisMachine) {
  SystemReader reader({.cpu = true, .memory = true, .disk = true, .net = true});
  std::vector<CounterSample> first, second;
  reader.Read(1'000'000'000, &first);
  reader.Read(2'000'000'000, &second);
  const auto names = [](const std::vector<CounterSample>& samples) {
    std::set<std::string> result;
    for (const CounterSample& sample : samples) result.insert(sample.name);
    return result;
  };
  EXPECT_FALSE(names(first).contains("cpu"));  // there is no share of zero time
  EXPECT_TRUE(names(second).contains("cpu"));
  EXPECT_TRUE(names(second).contains("memory/virtual"));
  EXPECT_TRUE(names(second).contains("network/lo"));
  for (const CounterSample& sample : second) {
    if (sample.name == "memory/process") {
      EXPECT_GT(sample.values.at(0).second, 0.001);  // this program has between a megabyte and a terabyte
      EXPECT_LT(sample.values.at(0).second, 1000);
    }
  }
}

TEST(SystemSampler, TakesALastSampleWhenStopped) {
  SystemSampler sampler({.cpu = false, .memory = true, .interval = absl::Hours(1)});
  const std::vector<CounterSample> samples = sampler.Stop();  // at once, not after an hour
  int resident = 0;
  for (const CounterSample& sample : samples) resident += sample.name == kResidentCounter ? 1 : 0;
  EXPECT_EQ(resident, 2);
}

}  // namespace
}  // namespace composer
