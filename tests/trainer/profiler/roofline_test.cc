// SPDX-License-Identifier: Apache-2.0
#include "trainer/profiler/roofline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace composer {
namespace {

using ::testing::HasSubstr;

constexpr MachinePeaks kPeaks{.threads = 2, .fp32_flops = 100e9, .bf16_flops = 200e9, .bytes = 10e9};

// Of two batches: products that take 10 ms at best, memory that takes 2 ms at best, and both types of product.
Roofline Example() {
  return MakeRoofline(kPeaks,
                      {{.layer = "fc", .seconds = 0.020, .fp32_flops = 1e9, .bytes = 1e6},
                       {.layer = "norm", .pass = LayerPass::kBackward, .seconds = 0.004, .bytes = 20e6},
                       {.layer = "(optimizer)",
                        .pass = LayerPass::kUpdate,
                        .seconds = 0.004,
                        .fp32_flops = 0.1e9,
                        .bf16_flops = 0.2e9}},
                      2, 0.056);
}

TEST(Roofline, TheShareIsTheBoundOverTheTime) {
  const Roofline roofline = Example();
  EXPECT_DOUBLE_EQ(roofline.batch_seconds, 0.028);
  ASSERT_EQ(roofline.rows.size(), 3u);
  EXPECT_TRUE(roofline.rows[0].computes);
  EXPECT_DOUBLE_EQ(roofline.rows[0].work.seconds, 0.010);
  EXPECT_DOUBLE_EQ(roofline.rows[0].share, 0.5);
  EXPECT_FALSE(roofline.rows[1].computes);
  EXPECT_DOUBLE_EQ(roofline.rows[1].share, 0.5);
  EXPECT_DOUBLE_EQ(roofline.rows[2].share, 0.5) << "1 ms of each type";
  EXPECT_DOUBLE_EQ(roofline.share, (0.005 + 0.001 + 0.001) / 0.028);
}

TEST(Roofline, NothingIsDividedByZero) {
  const Roofline roofline = MakeRoofline({}, {{.layer = "fc"}}, 0, 0);
  EXPECT_EQ(roofline.share, 0);
  EXPECT_EQ(roofline.rows[0].share, 0);
  EXPECT_THAT(RooflineText(roofline, "t"), HasSubstr("fc"));
}

TEST(Roofline, TextNamesEachLayerAndWhatIsLeft) {
  const std::string text = RooflineText(Example(), "ep0-ba2-rank0");
  EXPECT_THAT(text, HasSubstr("ep0-ba2-rank0: 2 batches, 28.000 ms each; 25 % of the machine's peak\n"));
  EXPECT_THAT(text, HasSubstr("2 threads: 100.0 GFLOP/s fp32, 200.0 GFLOP/s bf16, 10.0 GB/s\n"));
  EXPECT_THAT(text, ::testing::ContainsRegex("\nfc +forward +10.000 +35.7 +500.00 +0.50 +50.0 compute +50.0\n"));
  EXPECT_THAT(text, ::testing::ContainsRegex("\nnorm +backward +2.000 +7.1 +0.00 +10.00 +0.0 memory +50.0\n"));
  EXPECT_THAT(text, ::testing::ContainsRegex("\n.outside of operators. +14.000 +50.0\n"));
}

TEST(Roofline, TheLineNamesWhatLosesMostTime) {
  EXPECT_THAT(RooflineLine(Example()), HasSubstr("the most to gain: fc, forward, 10.00 ms at 50 %"));
}

TEST(Roofline, JsonHasTheSameFigures) {
  const auto json = nlohmann::json::parse(RooflineJson(Example()));
  EXPECT_EQ(json["peaks"]["bf16_flops"], 200e9);
  EXPECT_EQ(json["batches"], 2);
  ASSERT_EQ(json["layers"].size(), 3u);
  EXPECT_EQ(json["layers"][1]["layer"], "norm");
  EXPECT_EQ(json["layers"][1]["pass"], "backward");
  EXPECT_EQ(json["layers"][1]["bound"], "memory");
  EXPECT_EQ(json["layers"][1]["bytes"], 10e6);
}

}  // namespace
}  // namespace composer
