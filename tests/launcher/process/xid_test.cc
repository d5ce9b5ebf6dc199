// SPDX-License-Identifier: Apache-2.0
#include "launcher/process/xid.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace composer {
namespace {

TEST(Xid, IsReadFromTheKernelsLog) {
  const auto xid =
      ParseXidRecord("4,1234,987654,-;NVRM: Xid (PCI:0000:3b:00): 79, pid=4711, GPU has fallen off the bus.");
  ASSERT_TRUE(xid.has_value());
  EXPECT_EQ(xid->number, 79);
  EXPECT_EQ(xid->pci, "0000:3b:00");
  EXPECT_EQ(ParseXidRecord("4,1,2,-;NVRM: Xid (0000:3b:00): 13\n")->number, 13);
}

TEST(Xid, OtherLinesAreNone) {
  for (const char* line :
       {"", ";", "4;NVRM: Xid", "4,1,2,-;NVRM: Xid (PCI:0000:3b:00): ", "4,1,2,-;NVRM: Xid (PCI:0000:3b:00)",
        "4,1,2,-;NVRM: Xid (PCI:0000:3b:00): x79", "12,1,2,-;NVRM: Xid (PCI:0000:3b:00): 79, of a program",
        "-1,1,2,-;NVRM: Xid (PCI:0000:3b:00): 79", "4,1,2,-;NVRM: Xid (PCI:0000:3b:00): 99999999999",
        "4,1,2,-;python: NVRM: Xid (PCI:0000:3b:00): 79"})
    EXPECT_FALSE(ParseXidRecord(line).has_value()) << line;
}

TEST(Xid, SaysWhatItMeansAndWhoseFaultItIs) {
  EXPECT_EQ(DescribeXid(79), "Xid 79 (the GPU has fallen off the bus)");
  EXPECT_EQ(DescribeXid(7), "Xid 7");
  for (const int hardware : {48, 64, 74, 79, 95}) EXPECT_TRUE(IsHardwareXid(hardware)) << hardware;
  for (const int program : {7, 13, 31, 43, 45}) EXPECT_FALSE(IsHardwareXid(program)) << program;
}

}  // namespace
}  // namespace composer
