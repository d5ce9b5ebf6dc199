// SPDX-License-Identifier: Apache-2.0
#include "trainer/core/passes.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace composer {
namespace {

class Nothing final : public Algorithm {
 public:
  explicit Nothing(bool interpolates = false) : interpolates_(interpolates) {}
  std::string name() const override { return "Nothing"; }
  bool Match(Event event, const State& state) const override { return true; }
  absl::Status Apply(Event event, State& state, Logger& logger) override { return absl::OkStatus(); }
  bool interpolates_loss() const override { return interpolates_; }

 private:
  bool interpolates_;
};

// Applies the passes at the event to a list like "A B C", and returns it in the same form.
std::string After(const std::vector<AlgorithmPass>& passes, absl::string_view names, Event event) {
  AlgorithmList list;
  for (absl::string_view name : absl::StrSplit(names, ' ')) list.push_back({nullptr, name, list.size()});
  for (const AlgorithmPass& pass : passes) list = pass(std::move(list), event);
  return absl::StrJoin(
      list, " ", [](std::string* out, const NamedAlgorithm& item) { out->append(item.name.data(), item.name.size()); });
}

TEST(Passes, DefaultOrder) {
  struct Row {
    const char* given;
    Event event;
    const char* expected;
  };
  const Row kRows[] = {
      {"A B C D", Event::kBeforeLoss, "A B C D"},
      {"A B C D", Event::kAfterLoss, "D C B A"},
      {"A B C D", Event::kBatchEnd, "A B C D"},
      {"A B C D", Event::kEvalAfterAll, "A B C D"},  // eval_after_* is not an after_* event
      {"A", Event::kAfterLoss, "A"},
      {"A SelectiveBackprop B", Event::kInit, "SelectiveBackprop A B"},
      {"A LowPrecisionLayerNorm B", Event::kInit, "A B LowPrecisionLayerNorm"},
      {"LowPrecisionLayerNorm A B SelectiveBackprop", Event::kInit, "SelectiveBackprop A B LowPrecisionLayerNorm"},
      // mosaicml 0.32.1 gives ProgressiveResizing CutOut SelectiveBackprop.
      {"CutOut SelectiveBackprop ProgressiveResizing", Event::kAfterDataloader,
       "SelectiveBackprop ProgressiveResizing CutOut"},
      {"A LowPrecisionLayerNorm B", Event::kAfterLoad, "B A LowPrecisionLayerNorm"},
  };
  const auto passes = WithDefaultPasses({});
  for (const Row& row : kRows) EXPECT_EQ(After(passes, row.given, row.event), row.expected) << EventName(row.event);
}

TEST(Passes, SeveralOfOneNameKeepTheirOrder) {
  AlgorithmList list;
  for (const char* name : {"A", "SelectiveBackprop", "B", "SelectiveBackprop"})
    list.push_back({nullptr, name, list.size()});
  list = SortSelectiveBackpropFirst(list, Event::kInit);
  std::vector<size_t> order;
  for (const NamedAlgorithm& item : list) order.push_back(item.index);
  EXPECT_EQ(order, (std::vector<size_t>{1, 3, 0, 2}));

  list.clear();
  for (const char* name : {"LowPrecisionLayerNorm", "A", "LowPrecisionLayerNorm", "B"})
    list.push_back({nullptr, name, list.size()});
  list = SortLowPrecisionLayerNormLast(list, Event::kInit);
  order.clear();
  for (const NamedAlgorithm& item : list) order.push_back(item.index);
  EXPECT_EQ(order, (std::vector<size_t>{1, 3, 0, 2}));
}

AlgorithmPass MoveToFront(std::string name) {
  return [name](AlgorithmList list, Event) {
    std::stable_partition(list.begin(), list.end(), [&](const NamedAlgorithm& item) { return item.name == name; });
    return list;
  };
}

TEST(Passes, TheUsersStandWhereTheirIndexSays) {
  struct Row {
    int index;
    const char* expected;  // of "A SelectiveBackprop Mine" at AFTER_LOSS, where the front of the last pass wins
  };
  // Before the reversal (0 to 2), the reversal undoes the effect of "Mine first"; at the end the effect persists.
  const Row kRows[] = {{0, "SelectiveBackprop A Mine"},
                       {2, "SelectiveBackprop A Mine"},
                       {3, "Mine SelectiveBackprop A"},
                       {-1, "Mine SelectiveBackprop A"},
                       {99, "Mine SelectiveBackprop A"}};
  for (const Row& row : kRows) {
    const auto passes = WithDefaultPasses({{MoveToFront("Mine"), row.index}});
    EXPECT_EQ(After(passes, "A SelectiveBackprop Mine", Event::kAfterLoss), row.expected) << row.index;
  }
}

TEST(Passes, LaterInsertionsCountFromTheListAsItIs) {
  // The second pass also goes to place 0, hence before the first.
  const auto passes = WithDefaultPasses({{MoveToFront("X"), 0}, {MoveToFront("Y"), 0}});
  EXPECT_EQ(After(passes, "A Y X", Event::kBeforeLoss), "X Y A");
}

TEST(Passes, APassMayDropAlgorithms) {
  const AlgorithmPass drop = [](AlgorithmList list, Event) {
    list.erase(list.begin());
    return list;
  };
  EXPECT_EQ(After(WithDefaultPasses({{drop}}), "A B", Event::kBeforeLoss), "B");
}

TEST(Passes, WarnsWhenSeveralInterpolateTheLoss) {
  Nothing plain, mixing(true);
  EXPECT_EQ(LossInterpolationWarning({}), "");
  EXPECT_EQ(LossInterpolationWarning({{&plain, "A", 0}, {&mixing, "MixUp", 1}}), "");
  const std::string warning =
      LossInterpolationWarning({{&mixing, "MixUp", 0}, {&plain, "A", 1}, {&mixing, "CutMix", 2}});
  EXPECT_EQ(warning.substr(0, 38), "MixUp, CutMix all interpolate the loss");
}

}  // namespace
}  // namespace composer
