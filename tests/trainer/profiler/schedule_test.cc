// SPDX-License-Identifier: Apache-2.0
#include "trainer/profiler/schedule.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/file.h"

namespace composer {
namespace {

using Json = nlohmann::json;

CyclicSchedule FromJson(const Json& json) {
  CyclicSchedule schedule;
  schedule.skip_first = json.value("skip_first", schedule.skip_first);
  schedule.wait = json.value("wait", schedule.wait);
  schedule.warmup = json.value("warmup", schedule.warmup);
  schedule.active = json.value("active", schedule.active);
  schedule.repeat = json.value("repeat", schedule.repeat);
  return schedule;
}

char Letter(ProfilerAction action) { return "swaA"[static_cast<int>(action)]; }

TEST(CyclicSchedule, IsComposers) {
  const Json golden = Json::parse(ReadFile("tests/golden/profiler_schedule.json").value());
  ASSERT_EQ(golden["rows"].size(), 17u);
  for (const Json& row : golden["rows"]) {
    const CyclicSchedule schedule = FromJson(row["schedule"]);
    const std::string expected = row["actions"];
    std::string actions;
    for (size_t batch = 0; batch < expected.size(); ++batch) {
      actions += Letter(schedule({static_cast<int64_t>(batch), row["batches_per_epoch"], row["resumed_at"]}));
    }
    EXPECT_EQ(actions, expected) << row["schedule"];
  }
}

TEST(AskedWindow, OneWarmUpAndFourBatchesOrFewer) {
  const struct {
    int64_t first;              // batch of an epoch of 10 in which it is asked
    std::string_view expected;  // from there on; '-': the schedule decides
  } kRows[] = {{0, "waaaA-----"}, {5, "waaaA"}, {6, "waaA"}, {8, "wA"}};
  for (const auto& row : kRows) {
    AskedWindow window;
    std::string actions;
    window.Ask();
    for (int64_t batch = row.first; batch < 10; ++batch) {
      const auto action = window.Next({batch, 10, 0});
      actions += action.has_value() ? Letter(*action) : '-';
      window.Ask();  // has no effect in the window itself
      if (actions.back() == 'A') break;
    }
    for (AskedWindow none; actions.size() < row.expected.size();) actions += none.Next({9, 10, 0}) ? '?' : '-';
    EXPECT_EQ(actions, row.expected);
  }
  AskedWindow window;
  window.Ask();
  EXPECT_EQ(window.Next({9, 10, 0}), ProfilerAction::kWarmup) << "the last batch of an epoch";
  EXPECT_EQ(window.Next({0, 10, 0}), ProfilerAction::kActive) << "and the next one goes on";
}

TEST(CyclicSchedule, RefusesWhatMakesNoSense) {
  EXPECT_TRUE(CyclicSchedule{}.Validate().ok());
  EXPECT_EQ((CyclicSchedule{.active = 0}.Validate().message()), "profiler.schedule.active: 0, must be at least 1");
  EXPECT_EQ((CyclicSchedule{.wait = -1}.Validate().message()), "profiler.schedule.wait: -1, must be at least 0");
}

}  // namespace
}  // namespace composer
