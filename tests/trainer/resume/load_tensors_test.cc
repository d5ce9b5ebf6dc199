// Tests which of a checkpoint's algorithm parts a run takes.
// SPDX-License-Identifier: Apache-2.0
#include "trainer/resume/load_tensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace composer {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Manifest With(const std::vector<std::string>& tensors, const std::map<std::string, std::string>& small) {
  Manifest manifest;
  for (const std::string& name : tensors) manifest.tensors.emplace_back().name = name;
  manifest.small = small;
  return manifest;
}

const Manifest& OfTwo() {
  static const auto& manifest = *new Manifest(
      With({"model/a", "optimizer/a/exp_avg", "algorithms/EMA/a", "algorithms/EMA/b", "algorithms/Other/a"},
           {{"timestamp", "{}"}, {"algorithms/EMA", "1"}, {"algorithms/Other", "2"}}));
  return manifest;
}

struct Row {
  const char* name;
  std::vector<std::string> keys, ignore;
  AlgorithmSelection wanted;
  std::vector<std::string> states, ignored;
  size_t warnings;
};

TEST(AlgorithmLoadPlan, Table) {
  const Row rows[] = {
      {"both go on", {"algorithms/EMA", "algorithms/Other"}, {}, {}, {"1", "2"}, {}, 0},
      {"one is not in the run", {"algorithms/EMA"}, {}, {}, {"1"}, {"algorithms/Other/*"}, 1},
      {"none is", {}, {}, {}, {}, {"algorithms/EMA/*", "algorithms/Other/*"}, 2},
      {"a new one", {"algorithms/New", "algorithms/EMA", "algorithms/Other"}, {}, {}, {"", "1", "2"}, {}, 0},
      {"a second of its name",
       {"algorithms/EMA", "algorithms/EMA#2", "algorithms/Other"},
       {},
       {},
       {"1", "", "2"},
       {},
       0},
      {"excluded", {"algorithms/EMA", "algorithms/Other"}, {}, {{"EM?"}, false}, {"", "2"}, {"algorithms/EMA/*"}, 0},
      {"excluded, not in the run", {"algorithms/Other"}, {}, {{"EMA"}, false}, {"2"}, {"algorithms/EMA/*"}, 0},
      {"key ignored",
       {"algorithms/EMA", "algorithms/Other"},
       {"algorithms/EMA"},
       {},
       {"", "2"},
       {"algorithms/EMA/*"},
       0},
      {"a tensor ignored", {"algorithms/EMA", "algorithms/Other"}, {"*/EMA/b"}, {}, {"", "2"}, {"algorithms/EMA/*"}, 0},
      {"weights only", {"algorithms/EMA"}, {}, {{}, true}, {""}, {"algorithms/EMA/*", "algorithms/Other/*"}, 0},
  };
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    const AlgorithmLoadPlan plan = PlanAlgorithmLoad(row.keys, OfTwo(), row.ignore, row.wanted);
    EXPECT_EQ(plan.states, row.states);
    EXPECT_EQ(plan.ignore, row.ignored);
    EXPECT_EQ(plan.warnings.size(), row.warnings);
  }
}

TEST(AlgorithmLoadPlan, SaysWhatIsPassedOver) {
  const AlgorithmLoadPlan plan = PlanAlgorithmLoad({"algorithms/Other"}, OfTwo(), {}, {});
  EXPECT_THAT(plan.warnings,
              ElementsAre(HasSubstr("algorithm EMA of the checkpoint is not in this run: its 2 tensors")));
}

// State without tensors concerns only the algorithm; tensors without state are ignored.
TEST(AlgorithmLoadPlan, StateAndTensorsAreTwoThings) {
  const Manifest manifest = With({"algorithms/B/x"}, {{"algorithms/A", "3"}});
  const AlgorithmLoadPlan plan = PlanAlgorithmLoad({"algorithms/A", "algorithms/B"}, manifest, {}, {});
  EXPECT_THAT(plan.states, ElementsAre("3", ""));
  EXPECT_THAT(plan.ignore, ElementsAre("algorithms/B/*"));
  EXPECT_THAT(plan.warnings, IsEmpty());
}

}  // namespace
}  // namespace composer
