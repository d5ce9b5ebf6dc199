// SPDX-License-Identifier: Apache-2.0
#include "trainer/profiler/trace_name.h"

#include <gtest/gtest.h>

namespace composer {
namespace {

TEST(NameTemplate, Fills) {
  NameValues values{"mnist", "/runs/mnist", 3, 8, {}};
  values.timestamp.epoch = 1;
  values.timestamp.batch = 42;
  values.timestamp.batch_in_epoch = 2;
  values.timestamp.sample = 336;
  EXPECT_EQ(FillName("ep{epoch}-ba{batch}-rank{rank}.json", values), "ep1-ba42-rank3.json");
  EXPECT_EQ(FillName("{run_folder}/{run_name}-of{world_size}/{batch_in_epoch}_{sample}", values),
            "/runs/mnist/mnist-of8/2_336");
  EXPECT_EQ(FillName("{unknown} {rank", values), "{unknown} {rank");
  EXPECT_EQ(FillName("", values), "");
}

TEST(NameTemplate, Checks) {
  EXPECT_TRUE(CheckName("plain").ok());
  EXPECT_TRUE(CheckName("{rank}{token}{token_in_epoch}{sample_in_epoch}").ok());
  EXPECT_EQ(CheckName("{rank").message(), "{rank: { without }");
  const std::string message(CheckName("a{rnak}").message());
  EXPECT_NE(message.find("unknown placeholder {rnak}; there are {run_name}, "), std::string::npos) << message;
  EXPECT_NE(message.find("did you mean `rank`?"), std::string::npos) << message;
}

}  // namespace
}  // namespace composer
