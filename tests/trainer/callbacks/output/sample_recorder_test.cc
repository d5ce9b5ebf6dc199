// SPDX-License-Identifier: Apache-2.0
#include "trainer/callbacks/output/sample_recorder.h"

#include <gtest/gtest.h>

#include "base/file.h"
#include "tests/support/temp_dir.h"
#include "tests/trainer/callbacks/callback_fixture.h"

namespace composer {
namespace {

class SampleRecorderTest : public CallbackTest {
 protected:
  void Record(SampleRecorder& recorder, std::vector<int64_t> ids) {
    state_.batch.sample_ids = std::move(ids);
    ASSERT_TRUE(Fire(recorder, Event::kBatchStart).ok());
    Advance(absl::Seconds(1));
  }
  TempDir dir_;
};

TEST_F(SampleRecorderTest, WritesALineABatchAndAppendsAfterARestart) {
  state_.identity.run_folder = dir_.path();
  state_.identity.rank = 3;
  {
    SampleRecorder recorder;
    ASSERT_TRUE(Fire(recorder, Event::kFitStart).ok());
    Record(recorder, {17, 4});
    state_.timestamp.ToNextEpoch();
    Record(recorder, {});  // this rank has no share of the last batch
  }
  SampleRecorder second;
  ASSERT_TRUE(Fire(second, Event::kFitStart).ok());
  Record(second, {5});
  EXPECT_EQ(ReadFile(dir_.Path("logs/samples-rank3.jsonl")).value(),
            "{\"epoch\":0,\"batch\":1,\"sample_ids\":[17,4]}\n"
            "{\"epoch\":1,\"batch\":2,\"sample_ids\":[]}\n"
            "{\"epoch\":1,\"batch\":3,\"sample_ids\":[5]}\n");
}

TEST_F(SampleRecorderTest, NeedsARunFolder) {
  SampleRecorder recorder;
  const absl::Status status = Fire(recorder, Event::kFitStart);
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(status.message(), "sample_recorder needs a run_folder to write to");
}

}  // namespace
}  // namespace composer
