// SPDX-License-Identifier: Apache-2.0
#include "trainer/profiler/verdict.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace composer {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr TraceName kEventSpan{"event/batch_end", "event"};
constexpr TraceName kCallbackSpan{"callback/LRMonitor/event/batch_end", "callback"};
constexpr TraceName kAlgorithmSpan{"algorithm/MixUp/event/before_forward", "algorithm"};

// Times are in milliseconds.
SpanRecord Span(const TraceName& name, double begin, double end, uint32_t thread = 1) {
  return {
      &name, static_cast<int64_t>(begin * 1e6), static_cast<int64_t>(end * 1e6), 0, thread, SpanRecord::Kind::kSpan};
}

OpEvent Kernel(const char* name, double begin, double end, int64_t stream = 7) {
  OpEvent op;
  op.name = name;
  op.begin_ns = static_cast<int64_t>(begin * 1e6);
  op.duration_ns = static_cast<int64_t>((end - begin) * 1e6);
  op.device = 0;
  op.stream = stream;
  return op;
}

OpEvent HostOp(const char* name, double begin, double end, uint64_t flops = 0, uint64_t thread = 1) {
  OpEvent op = Kernel(name, begin, end);
  op.device = -1;
  op.thread = thread;
  op.flops = flops;
  return op;
}

// The window extends from 0 to 100 ms and has one batch.
Window OneBatch(std::vector<SpanRecord> spans) {
  Window window;
  window.end_ns = 100'000'000;
  window.batches = {{0, 4, 0, 100'000'000}};
  window.training_thread = 1;
  window.spans = std::move(spans);
  return window;
}

TEST(ProfileVerdict, EachInstantBelongsToTheInnermostSpan) {
  const ProfileVerdict verdict = Judge(OneBatch({
      Span(kDataloaderSpan, 0, 5), Span(kForwardSpan, 5, 35), Span(kEventSpan, 5, 15), Span(kAlgorithmSpan, 6, 14),
      Span(kBackwardSpan, 35, 75), Span(kReduceSpan, 70, 75),  // inside backward
      Span(kReduceSpan, 75, 80), Span(kOptimizerSpan, 80, 90), Span(kEventSpan, 91, 95), Span(kCallbackSpan, 92, 95),
      Span(kForwardSpan, 0, 100, /*thread=*/2),  // not the training thread
  }));
  EXPECT_DOUBLE_EQ(verdict.seconds, 0.1);
  EXPECT_NEAR(verdict.data_wait, 0.05, 1e-9);
  EXPECT_NEAR(verdict.forward, 0.20, 1e-9);
  EXPECT_NEAR(verdict.backward, 0.35, 1e-9);
  EXPECT_NEAR(verdict.communication, 0.10, 1e-9);
  EXPECT_NEAR(verdict.optimizer, 0.10, 1e-9);
  EXPECT_NEAR(verdict.callbacks, 0.14, 1e-9);
  EXPECT_NEAR(verdict.gaps, 0.06, 1e-9);
  EXPECT_THAT(verdict.advice, IsEmpty());
}

TEST(ProfileVerdict, EvaluationAndCheckpointsAreApart) {
  const ProfileVerdict verdict = Judge(OneBatch({Span(kForwardSpan, 0, 20), Span(kEvaluationSpan, 30, 60),
                                                 Span(kEventSpan, 40, 50), Span(kCheckpointSpan, 60, 80)}));
  // 10 ms of callbacks inside the evaluation remain: 100 - 20 - 20.
  EXPECT_DOUBLE_EQ(verdict.evaluation_seconds, 0.020);
  EXPECT_DOUBLE_EQ(verdict.checkpoint_seconds, 0.020);
  EXPECT_DOUBLE_EQ(verdict.seconds, 0.060);
  EXPECT_NEAR(verdict.forward, 1.0 / 3, 1e-9);
  EXPECT_THAT(VerdictText(verdict, "x"), HasSubstr("not counted: evaluation 0.020 s, checkpoints 0.020 s"));
}

TEST(ProfileVerdict, CollectivesBesideComputationAreTold) {
  const ProfileVerdict verdict = Judge(OneBatch({
      Span(kForwardSpan, 0, 60),
      Span(kCollectiveWaitSpan, 20, 30),
      Span(kAllGatherSpan, 30, 32),  // in the caller
      Span(kAllGatherSpan, 10, 30, /*thread=*/2),
      Span(kReduceScatterSpan, 40, 60, /*thread=*/2),
  }));
  EXPECT_DOUBLE_EQ(verdict.collective_seconds, 0.040);
  EXPECT_DOUBLE_EQ(verdict.hidden_collectives, 0.75);  // all but 20 to 30
  EXPECT_NEAR(verdict.communication, 0.12, 1e-9);
  EXPECT_NEAR(verdict.forward, 0.48, 1e-9);
  EXPECT_THAT(VerdictText(verdict, "x"),
              HasSubstr("collectives in the background: 40.000 ms a batch, 75.0 % beside computation"));
}

TEST(ProfileVerdict, AdvisesAboveTheLimitsOnly) {
  struct Row {
    double communication, data_wait;
    size_t advice;
  };
  for (const Row& row : {Row{20, 10, 0}, Row{21, 10, 1}, Row{20, 11, 1}, Row{50, 50, 2}}) {
    const ProfileVerdict verdict =
        Judge(OneBatch({Span(kReduceSpan, 0, row.communication),
                        Span(kDataloaderSpan, row.communication, row.communication + row.data_wait)}));
    EXPECT_THAT(verdict.advice, SizeIs(row.advice)) << row.communication << " " << row.data_wait;
  }
}

TEST(ProfileVerdict, DeviceTimesAreUnions) {
  Window window = OneBatch({});
  window.ops = {Kernel("gemm", 0, 30), Kernel("copy", 20, 40, /*stream=*/8),
                Kernel("ncclDevKernel_AllReduce", 30, 70, 9)};
  const ProfileVerdict verdict = Judge(window);
  ASSERT_THAT(verdict.devices, SizeIs(1));
  EXPECT_DOUBLE_EQ(verdict.devices[0].busy, 0.7);
  EXPECT_DOUBLE_EQ(verdict.devices[0].exposed_communication, 0.3);
  ASSERT_THAT(verdict.advice, SizeIs(1));
  EXPECT_THAT(verdict.advice[0], HasSubstr("communication takes 30 %"));
  EXPECT_THAT(VerdictText(verdict, "x"), HasSubstr("GPU 0: busy 70.0 %"));
}

TEST(ProfileVerdict, OperatorsAreTotalledByTheirOwnTime) {
  Window window = OneBatch({});
  window.ops = {HostOp("aten::linear", 0, 10), HostOp("aten::addmm", 1, 9, 4'000'000), HostOp("aten::copy_", 2, 3),
                HostOp("aten::addmm", 20, 22, 4'000'000), HostOp("aten::addmm", 0, 5, 0, /*thread=*/2)};
  const ProfileVerdict verdict = Judge(window);
  ASSERT_THAT(verdict.host_ops, SizeIs(3));
  EXPECT_EQ(verdict.host_ops[0].name, "aten::addmm");
  EXPECT_EQ(verdict.host_ops[0].calls, 3);
  EXPECT_NEAR(verdict.host_ops[0].seconds, 0.014, 1e-12);
  EXPECT_EQ(verdict.host_ops[0].flops, 8'000'000u);
  EXPECT_EQ(verdict.host_ops[1].name, "aten::linear");
  EXPECT_NEAR(verdict.host_ops[1].seconds, 0.002, 1e-12);
  EXPECT_THAT(verdict.device_ops, IsEmpty());
}

TEST(ProfileVerdict, TextAndLine) {
  const ProfileVerdict verdict = Judge(OneBatch({Span(kForwardSpan, 0, 25), Span(kReduceSpan, 25, 75)}));
  const std::string text = VerdictText(verdict, "ep0-ba5-rank0");
  EXPECT_THAT(text, HasSubstr("ep0-ba5-rank0: 1 batches, 100.000 ms each\n  forward                 25.0 %\n"));
  EXPECT_THAT(text, HasSubstr("advice: communication takes 50 % of the step"));
  EXPECT_THAT(VerdictLine(verdict),
              HasSubstr("100.000 ms a batch: forward 25 %, backward 0 %, optimizer 0 %, "
                        "communication 50 %, data wait 0 %, algorithms and callbacks 0 %, gaps 25 %"));
}

TEST(ProfileVerdict, AnEmptyWindowIsNoDivisionByZero) {
  const ProfileVerdict verdict = Judge(Window());
  EXPECT_EQ(verdict.forward, 0);
  EXPECT_FALSE(VerdictText(verdict, "x").empty());
}

}  // namespace
}  // namespace composer
